import type { CelerySettings } from '../../celery-options';

const HIGHEST = 9;

/** Names the Redis list of a queue for a message's priority. */
export type ListKey = (queue: string, priority: number) => string;

/** As kombu: the step is the largest that is not above the priority, and the lowest has the queue's bare name. */
export function createListKey({ globalKeyprefix, prioritySteps, sep }: CelerySettings['transport']): ListKey {
  const suffixes = Array.from({ length: HIGHEST + 1 }, (_, priority) => {
    const step = Math.max(0, ...prioritySteps.filter((candidate) => candidate <= priority));
    return step === 0 ? '' : `${sep}${step}`;
  });
  return (queue, priority) => {
    const suffix = suffixes[Math.min(HIGHEST, Math.max(0, Math.trunc(priority)))] ?? '';
    return `${globalKeyprefix}${queue}${suffix}`;
  };
}
