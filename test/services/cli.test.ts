import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';

const CLI = join(__dirname, '../../services/cli.ts');
const URLS = { DATABASE_URL: "postgres://u:it's@db/x?a=1&b=2", REDIS_URL: 'redis://cache:6379' };

interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** With a signal, interrupts it as soon as it says that it stays. */
async function runCli(args: readonly string[], signal?: NodeJS.Signals): Promise<Outcome> {
  const env = { ...process.env, ...URLS };
  const child = spawn(process.execPath, ['--import', 'tsx', CLI, ...args], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const outcome = collect(child);
  child.stderr.once('data', () => {
    // Twice, as npm does.
    if (signal) [signal, signal].forEach((each) => child.kill(each));
  });
  return outcome;
}

async function collect(child: ChildProcess): Promise<Outcome> {
  const { stdout, stderr } = child;
  if (!stdout || !stderr) throw new Error('The output is not piped.');
  const [out, err, [code]] = await Promise.all([
    text(stdout),
    text(stderr),
    once(child, 'exit', { signal: AbortSignal.timeout(10_000) }) as Promise<[number | null]>,
  ]);
  return { code, stdout: out, stderr: err };
}

describe('npm run services', () => {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    it(`prints what a shell can read, stays, and ends well on ${signal}`, async () => {
      expect(await runCli(['redis', 'postgres'], signal)).to.deep.equal({
        code: 0,
        stdout:
          'export REDIS_URL=redis://cache:6379\n' +
          "export DATABASE_URL='postgres://u:it'\\''s@db/x?a=1&b=2'\n",
        stderr: 'Running until Ctrl-C.\n',
      });
    });
  }

  it('answers an unknown name with a sentence', async () => {
    expect(await runCli(['postgres', 'mysql'])).to.include({
      code: 2,
      stdout: '',
      stderr: 'Unknown service mysql: choose from postgres, redis, rabbitmq.\n',
    });
  });
});
