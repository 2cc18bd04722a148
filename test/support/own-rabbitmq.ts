import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { startServices, type Service, type Services } from '../../services';
import { privatePlatform } from '../services/fixtures/platforms';

/** A RabbitMQ that tests may stop and kill, and that does what they tell it. */
export interface OwnRabbitmq extends Service {
  /** Runs Erlang code in the server. */
  evaluate(...statements: string[]): Promise<string>;
}

let starting: Promise<Services<'rabbitmq'>> | undefined;

/** One for all suites that need it: started when the first asks for it, stopped when the run ends. */
export async function ownRabbitmq(): Promise<OwnRabbitmq> {
  const platform = privatePlatform();
  starting ??= startServices(['rabbitmq'], { platform });
  const { rabbitmq } = await starting;
  const rabbitmqctl = join(dirname(platform.find.rabbitmq()!.server), 'rabbitmqctl');
  return {
    ...rabbitmq,
    async evaluate(...statements) {
      const env = environmentOf(rabbitmq.url);
      const { stdout } = await promisify(execFile)(rabbitmqctl, ['eval', `${statements.join(', ')}.`], {
        env,
      });
      return stdout;
    },
  };
}

after(async () => {
  await (await starting)?.close();
  starting = undefined;
});

/** The environment of the server on a port: it names the node, and where its cookie is. */
function environmentOf(url: string): Record<string, string> {
  const listener = `127.0.0.1:${new URL(url).port}\n`;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const environment = readEnvironment(pid);
    const configuration = environment['RABBITMQ_CONFIG_FILE'];
    if (configuration !== undefined && readFileSync(configuration, 'utf8').includes(listener))
      return environment;
  }
  throw new Error(`RabbitMQ does not run at ${url}`);
}

function readEnvironment(pid: string): Record<string, string> {
  try {
    const lines = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
    const pairs = lines.map(
      (line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)] as const,
    );
    return Object.fromEntries(pairs);
  } catch {
    // It has ended, or is not ours.
    return {};
  }
}
