import { join } from 'node:path';
import { answers } from '../answers';
import type { RedisBinaries } from '../binaries';
import { freePort } from '../free-port';
import type { Recipe } from './program';

/** Redis without persistence: it comes back empty after every end. */
export async function createRedisRecipe(binaries: RedisBinaries, directory: string): Promise<Recipe> {
  const port = await freePort();
  const url = `redis://127.0.0.1:${port}`;
  return {
    url,
    programs: [
      {
        command: binaries.server,
        args: [
          ...['--port', String(port), '--bind', '127.0.0.1', '--dir', directory],
          ...['--save', '', '--appendonly', 'no', '--loglevel', 'warning'],
        ],
        environment: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
        directory,
        logFile: join(directory, 'redis.log'),
        stopSignal: 'SIGTERM',
        discardSignal: 'SIGKILL',
        answers: () => answers.redis(url),
      },
    ],
  };
}
