/** The services that tests, demo and benchmarks know how to get. */
export const SERVICE_NAMES = ['postgres', 'redis', 'rabbitmq'] as const;

export type ServiceName = (typeof SERVICE_NAMES)[number];

/**
 * Where a service comes from: a URL somebody gave us, a container, or a server of our own on this machine.
 */
export type ServiceOrigin = 'environment' | 'docker' | 'private';

/**
 * A running server. `stop`, `kill` and `start` exist so that a test can take its broker or database away and
 * bring it back under the same URL; PostgreSQL and RabbitMQ come back with their data, Redis comes back empty.
 * They reject when the origin is `environment`: that server is not ours.
 */
export interface Service {
  readonly name: ServiceName;
  readonly url: string;
  readonly origin: ServiceOrigin;
  /** Starts it again and resolves when it answers. Does nothing while it runs. */
  start(): Promise<void>;
  /** Ends it in an orderly way. Does nothing while it is down. */
  stop(): Promise<void>;
  /** Ends it the way a crash would: SIGKILL, nothing flushed. */
  kill(): Promise<void>;
}

/**
 * The services that were asked for, each under its name.
 */
export type Services<Names extends ServiceName = ServiceName> = Readonly<Record<Names, Service>> & {
  /**
   * Stops what is ours and removes its data. Without it the end of the process, even by SIGKILL, has the same
   * effect; only `close` waits for it.
   */
  close(): Promise<void>;
};
