import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createBinaryFinders } from '../../services/binaries';
import { freePort } from '../../services/free-port';
import { eventually } from './eventually';

/** A Redis server of a test's own, with settings that the others cannot have. */
export interface RedisProcess {
  readonly url: string;
  readonly port: number;
  /** Starts it again, with the data that its settings let it keep. */
  start(): Promise<void>;
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  close(): Promise<void>;
}

/** The installed server; undefined on a machine that has Redis only in a container. */
export const redisBinary = createBinaryFinders(process.env['PATH'] ?? '').redis()?.server;

/** @param settings - lines of redis.conf, or of sentinel.conf with the flag `--sentinel` */
export async function startRedisProcess(
  settings: readonly string[],
  ...flags: string[]
): Promise<RedisProcess> {
  const directory = await mkdtemp(join(tmpdir(), 'outbox-redis-'));
  const port = await freePort();
  const url = `redis://127.0.0.1:${String(port)}`;
  const conf = join(directory, 'redis.conf');
  const base = [`port ${String(port)}`, 'bind 127.0.0.1', `dir ${directory}`, `logfile ${directory}/log`];
  await writeFile(conf, [...base, ...settings, ''].join('\n'));
  let running: { child: ChildProcess; exited: Promise<unknown> } | undefined;

  const end: RedisProcess['end'] = async (signal) => {
    running?.child.kill(signal);
    await running?.exited;
    running = undefined;
  };
  const close = async (): Promise<void> => {
    await end('SIGKILL');
    await rm(directory, { recursive: true });
  };
  const start = async (): Promise<void> => {
    if (running !== undefined || redisBinary === undefined) return;
    const child = spawn(redisBinary, [conf, ...flags], { stdio: 'ignore' });
    running = { child, exited: once(child, 'exit') };
    await eventually(() => ping(port));
  };
  try {
    await start();
  } catch (error) {
    await close();
    throw error;
  }
  return { url, port, start, end, close };
}

// Also a server that asks for a password has started.
async function ping(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  try {
    socket.write('PING\r\n');
    const [reply] = (await once(socket, 'data')) as [Buffer];
    if (!/^(\+PONG|-NOAUTH)/.test(String(reply))) throw new Error(`redis-server says ${String(reply)}`);
  } finally {
    socket.destroy();
  }
}
