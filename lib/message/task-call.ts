import { snapshotJson, type EncodedJson } from './json';
import { isPlainObject } from './plain-object';
import { MAX_SHORT_STRING_BYTES, textFault } from './text';
import { unexpected } from './unexpected';

/** @throws ERR_CELERY_OUTBOX_INVALID_TASK */
export function checkTaskName(name: unknown): string {
  const fault = textFault(name, { maxBytes: MAX_SHORT_STRING_BYTES });
  if (fault === null && typeof name === 'string') return name;
  throw unexpected('ERR_CELERY_OUTBOX_INVALID_TASK', 'The task name', fault ?? 'a string', name);
}

/** @throws ERR_CELERY_OUTBOX_INVALID_TASK, ERR_CELERY_OUTBOX_UNENCODABLE */
export function encodeArgs(args: unknown = []): EncodedJson {
  const encoded = Array.isArray(args) ? snapshotJson(args, 'args') : null;
  // The second look is for an array with a toJSON of its own.
  if (encoded?.text.startsWith('[')) return encoded;
  throw unexpected('ERR_CELERY_OUTBOX_INVALID_TASK', 'args', 'an array', args);
}

/** @throws ERR_CELERY_OUTBOX_INVALID_TASK, ERR_CELERY_OUTBOX_UNENCODABLE */
export function encodeKwargs(kwargs: unknown = {}): EncodedJson {
  const encoded = isPlainObject(kwargs) ? snapshotJson(kwargs, 'kwargs') : null;
  if (encoded?.text.startsWith('{')) return encoded;
  throw unexpected('ERR_CELERY_OUTBOX_INVALID_TASK', 'kwargs', 'a plain object', kwargs);
}
