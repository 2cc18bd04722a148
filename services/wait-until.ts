import { setTimeout as delay } from 'node:timers/promises';

const INTERVAL_MS = 25;

/**
 * Polls a condition until it holds. Resolves to false when it does not hold by the deadline; the caller knows
 * better what that means.
 */
export async function waitUntil(
  condition: () => boolean | Promise<boolean>,
  deadlineMs: number,
): Promise<boolean> {
  const deadline = performance.now() + deadlineMs;
  while (!(await condition())) {
    if (performance.now() > deadline) return false;
    await delay(INTERVAL_MS);
  }
  return true;
}
