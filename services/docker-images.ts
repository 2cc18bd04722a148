import { postgresSettings } from './postgres-settings';
import type { ServiceName } from './service';

interface DockerImage {
  readonly image: string;
  readonly port: number;
  readonly environment: Record<string, string>;
  readonly command: (durable: boolean) => string[];
  readonly url: (address: string) => string;
}

/** The containers that equal our private servers. */
export const DOCKER_IMAGES: Readonly<Record<ServiceName, DockerImage>> = {
  postgres: {
    image: 'postgres:16-alpine',
    port: 5432,
    environment: {
      POSTGRES_HOST_AUTH_METHOD: 'trust',
      POSTGRES_INITDB_ARGS: '-E UTF8 --no-locale --no-sync',
    },
    command: (durable) => ['postgres', ...postgresSettings(durable)],
    url: (address) => `postgres://postgres@${address}/postgres`,
  },
  redis: {
    image: 'redis:7-alpine',
    port: 6379,
    environment: {},
    command: () => ['redis-server', '--save', '', '--appendonly', 'no'],
    url: (address) => `redis://${address}`,
  },
  rabbitmq: {
    image: 'rabbitmq:3.13-alpine',
    port: 5672,
    environment: {},
    command: () => ['rabbitmq-server'],
    url: (address) => `amqp://guest:guest@${address}`,
  },
};
