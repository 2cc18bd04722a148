import type { ChildProcess } from 'node:child_process';
import type { NumberedRequest, Request, Response } from './protocol';

/** Longer than the supervisor takes for anything, its own deadlines included. */
const DEADLINE_MS = 180_000;
const GONE = 'The supervisor of the services has ended.';

/**
 * Sends requests to a supervisor; each resolves to the URL of its service. Keeps the run alive while a request
 * is under way, and only then.
 */
export function createChannel(child: ChildProcess): (request: Request) => Promise<string> {
  const pending = new Map<number, (result: string | Error) => void>();
  let lastId = 0;

  function settle(id: number, result: string | Error): void {
    pending.get(id)?.(result);
    pending.delete(id);
    if (pending.size === 0) child.channel?.unref();
  }
  function settleAll(error: Error): void {
    for (const id of pending.keys()) settle(id, error);
  }

  child.channel?.unref();
  child.on('message', (message) => {
    const response = message as Response;
    settle(response.id, 'error' in response ? new Error(response.error) : response.url);
  });
  child.on('error', settleAll);
  child.on('disconnect', () => {
    settleAll(new Error(GONE));
  });

  return (request) =>
    new Promise((resolve, reject) => {
      const id = (lastId += 1);
      const deadline = setTimeout(() => {
        settle(id, new Error(`The supervisor of the services did not ${request.action} in time.`));
      }, DEADLINE_MS);
      pending.set(id, (result) => {
        clearTimeout(deadline);
        if (result instanceof Error) reject(result);
        else resolve(result);
      });
      if (!child.connected) {
        settle(id, new Error(GONE));
        return;
      }
      child.channel?.ref();
      child.send({ id, request } satisfies NumberedRequest);
    });
}
