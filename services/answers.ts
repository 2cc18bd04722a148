import { connect, type Socket } from 'node:net';
import { Redis } from 'ioredis';
import { Client } from 'pg';
import type { ServiceName } from './service';

/** One attempt may not outlast the deadline of the one who polls by much. */
const ATTEMPT_MS = 2_000;

/**
 * Whether a service does its work, which is more than listening: PostgreSQL listens while it still recovers,
 * Redis while it still loads.
 */
export const answers: Readonly<Record<ServiceName, (url: string) => Promise<boolean>>> = {
  postgres: postgresAnswers,
  redis: redisAnswers,
  rabbitmq: rabbitmqAnswers,
};

async function postgresAnswers(url: string): Promise<boolean> {
  const client = new Client({
    connectionString: url,
    ssl: false,
    connectionTimeoutMillis: ATTEMPT_MS,
    query_timeout: ATTEMPT_MS,
  });
  // A connection that breaks between two steps also fails the step; without a listener it ends the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query('SELECT 1');
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function redisAnswers(url: string): Promise<boolean> {
  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: ATTEMPT_MS,
    commandTimeout: ATTEMPT_MS,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.ping();
    return true;
  } catch {
    return false;
  } finally {
    client.disconnect();
  }
}

const AMQP_HEADER = Buffer.from('AMQP\0\0\x09\x01', 'latin1');
/** Frame of a method (1) on channel 0, its size, then class 10, method 10: connection.start. */
const CONNECTION_START = /^\x01\0\0[^]{4}\0\x0a\0\x0a/;

/** RabbitMQ opens its listener as the last step of its boot, and then greets whoever sends the header. */
async function rabbitmqAnswers(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  const greeting = await withSocket(hostname, Number(port), (socket) => {
    socket.write(AMQP_HEADER);
    return new Promise<string>((resolve) => {
      socket.once('data', (data) => {
        resolve(data.toString('latin1'));
      });
    });
  });
  return greeting !== undefined && CONNECTION_START.test(greeting);
}

/** Whether somebody listens on a port of 127.0.0.1. */
export async function portAnswers(port: number): Promise<boolean> {
  const connected = await withSocket('127.0.0.1', port, () => Promise.resolve(true));
  return connected === true;
}

function withSocket<T>(
  host: string,
  port: number,
  talk: (socket: Socket) => Promise<T>,
): Promise<T | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: ATTEMPT_MS });
    const end = (result: T | undefined): void => {
      socket.destroy();
      resolve(result);
    };
    for (const event of ['error', 'timeout', 'close']) {
      socket.once(event, () => {
        end(undefined);
      });
    }
    socket.once('connect', () => {
      talk(socket).then(end, () => {
        end(undefined);
      });
    });
  });
}
