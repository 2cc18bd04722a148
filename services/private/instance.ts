import type { Children } from './children';
import { isAlive, type ProcessIdentity } from './proc';
import type { Recipe, ServerProgram } from './program';
import { terminate } from './terminate';

const STOP_GRACE_MS = 15_000;

/**
 * One private service through its life. Its port and its data stay the same from one start to the next.
 */
export interface Instance {
  readonly url: string;
  start(): Promise<void>;
  stop(): Promise<void>;
  kill(): Promise<void>;
}

/** Prepares and starts a service; resolves when it answers. */
export async function createInstance(recipe: Recipe, children: Children): Promise<Instance> {
  const running = new Map<ServerProgram, ProcessIdentity>();
  let last = Promise.resolve();

  /** A start that overtook a stop would leave the service down. */
  function inTurn(action: () => Promise<void>): () => Promise<void> {
    return () => {
      const turn = last.then(action);
      last = turn.catch(() => undefined);
      return turn;
    };
  }

  async function start(): Promise<void> {
    for (const program of recipe.programs) {
      const identity = running.get(program);
      if (!identity || !isAlive(identity)) running.set(program, await children.serve(program));
    }
  }

  async function end(signalOf: (program: ServerProgram) => NodeJS.Signals): Promise<void> {
    for (const program of recipe.programs.toReversed()) {
      const identity = running.get(program);
      if (identity) await terminate(identity, signalOf(program), STOP_GRACE_MS);
      running.delete(program);
    }
  }

  if (recipe.preparation) await children.run(recipe.preparation);
  await start();
  return {
    url: recipe.url,
    start: inTurn(start),
    stop: inTurn(() => end((program) => program.stopSignal)),
    kill: inTurn(() => end(() => 'SIGKILL')),
  };
}
