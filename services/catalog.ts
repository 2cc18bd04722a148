import type { ServiceName } from './service';

interface CatalogEntry {
  /** The variable that gives the URL of an existing server. */
  readonly variable: string;
  /** What such a URL looks like, for error messages. */
  readonly exampleUrl: string;
  readonly debianPackage: string;
}

/**
 * What distinguishes the services for those who only need their names.
 */
export const CATALOG: Readonly<Record<ServiceName, CatalogEntry>> = {
  postgres: {
    variable: 'DATABASE_URL',
    exampleUrl: 'postgres://user:password@host:5432/database',
    debianPackage: 'postgresql',
  },
  redis: {
    variable: 'REDIS_URL',
    exampleUrl: 'redis://host:6379',
    debianPackage: 'redis-server',
  },
  rabbitmq: {
    variable: 'AMQP_URL',
    exampleUrl: 'amqp://user:password@host:5672',
    debianPackage: 'rabbitmq-server',
  },
};
