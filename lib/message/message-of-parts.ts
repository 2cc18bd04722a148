import { CeleryOutboxError } from '../errors';
import type { CeleryMessage } from './celery-message';
import { encodeJson } from './json';
import { parseJson, type JsonValue } from './json-text';
import { checkTaskName } from './task-call';
import { MAX_SHORT_STRING_BYTES, textFault } from './text';

/** A message as celery-node's client makes it. */
export interface MessageParts {
  readonly body: unknown;
  readonly exchange: string;
  readonly routingKey: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly properties: { readonly correlationId?: string; readonly replyTo?: string };
}

/**
 * The message of these parts.
 *
 * @throws ERR_CELERY_OUTBOX_INVALID_TASK for one that would stop a Python worker: without task name, id or a body of
 * args, kwargs and embed
 */
export function messageOfParts(parts: MessageParts): CeleryMessage {
  const { exchange, routingKey, properties } = parts;
  const headers = parseJson(encodeJson(parts.headers, 'headers')) as Readonly<Record<string, JsonValue>>;
  const taskId = checkId(headers['id']);
  checkTaskName(headers['task']);
  const { correlationId = taskId, replyTo = '' } = properties;
  return {
    taskId,
    route: { exchange, routingKey, queue: exchange === '' ? routingKey : null },
    headers,
    contextHeaders: [],
    properties: { correlationId, ...(replyTo !== '' && { replyTo }), deliveryMode: 2, priority: 0 },
    body: Buffer.from(encodeBody(parts.body)),
    etaMs: null,
    chordSizes: {},
  };
}

function checkId(id: JsonValue | undefined): string {
  const fault = textFault(id, { maxBytes: MAX_SHORT_STRING_BYTES });
  if (fault === null) return id as string;
  throw new CeleryOutboxError('ERR_CELERY_OUTBOX_INVALID_TASK', `The header id must be ${fault}`);
}

function encodeBody(body: unknown): string {
  if (Array.isArray(body) && body.length === 3) {
    const [args, kwargs, embed] = body as unknown[];
    // celery-node leaves them out of a call without arguments, and a worker fails on null.
    return encodeJson([args ?? [], kwargs ?? {}, embed ?? {}], 'body');
  }
  throw new CeleryOutboxError('ERR_CELERY_OUTBOX_INVALID_TASK', 'The body must be [args, kwargs, embed]');
}
