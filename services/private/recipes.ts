import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { PrivatePlan } from '../resolve';
import { createPostgresRecipe } from './postgres';
import type { Recipe } from './program';
import { createRabbitmqRecipe } from './rabbitmq';
import { createRedisRecipe } from './redis';

/** The recipe of a service, in a directory of its own below the given one. */
export async function createRecipe(
  plan: PrivatePlan,
  runDirectory: string,
  durable: boolean,
): Promise<Recipe> {
  const directory = join(runDirectory, plan.name);
  await mkdir(directory, { mode: 0o700 });
  switch (plan.name) {
    case 'postgres':
      return createPostgresRecipe(plan.binaries, directory, durable);
    case 'redis':
      return createRedisRecipe(plan.binaries, directory);
    case 'rabbitmq':
      return createRabbitmqRecipe(plan.binaries, directory);
  }
}
