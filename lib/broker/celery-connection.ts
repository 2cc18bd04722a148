import { type CeleryBackend, Client } from './celery-node';

/** celery-node's backends as they are at run time; their types hide what has to be guarded. */
interface Guarded {
  connect?: Promise<AmqpEmitter>;
  channel?: Promise<AmqpEmitter>;
  redis?: RedisEmitter;
}
interface AmqpEmitter {
  on(event: 'error' | 'close', listener: (error?: Error) => void): unknown;
  close(): Promise<unknown>;
}
interface RedisEmitter {
  on(event: 'error', listener: (error: Error) => void): unknown;
  disconnect(): void;
}

/** A backend of celery-node, made safe to hold: it cannot crash the process, and it can be cut off. */
export interface CeleryConnection<T> {
  readonly target: T;
  /** Resolves when it is connected; rejects when connecting failed (celery-node's own isReady would hang). */
  ready(): Promise<void>;
  cut(): void;
}

export function connectBackend(url: string, onLost: (error: Error) => void): CeleryConnection<CeleryBackend> {
  return guard(new Client(url, url).backend, onLost);
}

// celery-node listens to none of its connections: one refused or reset is an unhandled rejection or an
// 'error' event without a listener, and either ends the process.
function guard<T extends { isReady(): Promise<unknown> }>(
  target: T,
  onLost: (error: Error) => void,
): CeleryConnection<T> {
  const { connect, channel, redis } = target as unknown as Guarded;
  const lost = (error?: Error): void => {
    onLost(error ?? new Error('connection closed'));
  };
  for (const link of [connect, channel]) {
    link?.then((emitter) => {
      emitter.on('error', lost);
      emitter.on('close', () => {
        lost();
      });
    }, lost);
  }
  redis?.on('error', lost);
  return {
    target,
    async ready() {
      await connect;
      await channel;
      await target.isReady();
    },
    cut() {
      redis?.disconnect();
      connect?.then((connection) => connection.close()).catch(() => undefined);
    },
  };
}
