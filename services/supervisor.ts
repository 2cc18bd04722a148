import { createChildren } from './private/children';
import { createInstance, type Instance } from './private/instance';
import { createRecipe } from './private/recipes';
import { createRunDirectory, discardRunDirectory, sweepRunDirectories } from './private/run-directory';
import type { NumberedRequest, Request, Response } from './protocol';
import type { ServiceName } from './service';

/**
 * The process that owns the private services of one run. It outlives the run by the time it takes to end them:
 * the channel between both closes with the run, however that ended.
 */
const directory = createRunDirectory();
const children = createChildren(directory);
const instances = new Map<ServiceName, Instance>();

const swept = sweepRunDirectories().catch((error: unknown) => {
  // What somebody else left is no reason to refuse this run.
  console.error('Could not remove what an earlier run left behind:', error);
});

async function fulfil(request: Request): Promise<string> {
  if (request.action === 'create') {
    await swept;
    const recipe = await createRecipe(request.plan, directory, request.durable);
    const instance = await createInstance(recipe, children);
    instances.set(request.plan.name, instance);
    return instance.url;
  }
  const instance = instances.get(request.name);
  if (!instance) throw new Error(`There is no ${request.name} to ${request.action}.`);
  await instance[request.action]();
  return instance.url;
}

async function answer({ id, request }: NumberedRequest): Promise<void> {
  const response: Response = await fulfil(request).then(
    (url) => ({ id, url }),
    (error: unknown) => ({ id, error: error instanceof Error ? error.message : String(error) }),
  );
  // A run that is gone asks for nothing any more.
  if (process.connected) process.send?.(response, () => undefined);
}

async function end(): Promise<void> {
  children.refuse();
  await swept;
  await discardRunDirectory(directory);
  process.exit();
}

let ending: Promise<void> | undefined;

function endOnce(): void {
  ending ??= end().catch((error: unknown) => {
    console.error(`Could not clean up ${directory}:`, error);
    process.exit(1);
  });
}

process.on('message', (message) => {
  void answer(message as NumberedRequest);
});
for (const event of ['disconnect', 'SIGINT', 'SIGTERM', 'SIGHUP']) process.on(event, endOnce);
process.on('uncaughtException', (error) => {
  console.error('The supervisor of the services failed:', error);
  process.exitCode = 1;
  endOnce();
});
// The run may have died before there was a listener to hear of it.
if (!process.connected) endOnce();
