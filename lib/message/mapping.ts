import { unexpected } from './unexpected';
import { group, type Group } from './group';
import { signature, Signature } from './signature';

/** One task that calls `task` with each item in turn, in one worker, and answers with the list of results. */
export function xmap(task: Signature, items: readonly unknown[]): Signature {
  return mapping('celery.map', task, items);
}

/** As {@link xmap}, each item being the list of arguments. */
export function starmap(task: Signature, items: readonly (readonly unknown[])[]): Signature {
  return mapping('celery.starmap', task, items);
}

/**
 * Splits the calls of {@link starmap} into tasks of `size` calls each, which run side by side.
 *
 * @throws ERR_CELERY_OUTBOX_INVALID_TASK
 */
export function chunks(task: Signature, items: readonly (readonly unknown[])[], size: number): Group {
  if (!Number.isInteger(size) || size < 1) {
    throw unexpected('ERR_CELERY_OUTBOX_INVALID_TASK', 'chunks: size', 'a whole number above 0', size);
  }
  requireItems(items);
  const parts = Array.from({ length: Math.ceil(items.length / size) }, (_, part) =>
    items.slice(part * size, (part + 1) * size),
  );
  return group(parts.map((part) => starmap(task, part)));
}

function mapping(name: string, task: Signature, items: readonly unknown[]): Signature {
  if (!(task instanceof Signature)) {
    throw unexpected('ERR_CELERY_OUTBOX_INVALID_TASK', `${name}: task`, 'a signature', task);
  }
  return signature(name, [], { task: task.toCelery(), it: requireItems(items) }).immutable();
}

function requireItems(items: readonly unknown[]): readonly unknown[] {
  if (Array.isArray(items)) return items;
  throw unexpected('ERR_CELERY_OUTBOX_INVALID_TASK', 'items', 'an array', items);
}
