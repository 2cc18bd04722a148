import { CeleryOutboxError } from '../errors';
import { encodeTask, type EncodedTask, type EncodeSettings } from '../message/encode-task';
import { isPlainObject } from '../message/plain-object';
import type { OutboxSettings } from '../options';
import { logEvent } from '../telemetry/logger';
import type { SendOptions } from './send-options';

/** How this outbox encodes tasks, at this moment: relative times become absolute by its clock. */
export function encodingOf({ maxPayloadBytes, redact, logger }: OutboxSettings): EncodeSettings {
  return {
    maxPayloadBytes,
    now: new Date(),
    ...(redact && { redact }),
    onRedactError: (error) => {
      logEvent(logger, 'error', 'celery_outbox_redaction_failed', { error });
    },
  };
}

/** A call as users write it, not yet checked; the transaction is still among its options. */
export interface UncheckedCall {
  readonly name: string;
  readonly args?: readonly unknown[] | undefined;
  readonly kwargs?: object | undefined;
  readonly options?: SendOptions | undefined;
}

export function encodeCall(
  { name, args, kwargs, options }: UncheckedCall,
  settings: EncodeSettings,
): EncodedTask {
  return encodeTask({ name, args, kwargs, options: withoutTrx(options) }, settings);
}

/** Options for the message room, which knows no transactions. What is not a plain object is for it to refuse. */
export function withoutTrx<T extends { trx?: unknown }>(options: T | undefined): Omit<T, 'trx'> | undefined {
  if (!isPlainObject(options)) return options;
  const { trx: _trx, ...rest } = options;
  return rest;
}

const PROPERTIES: ReadonlySet<string> = new Set(['name', 'args', 'kwargs', 'options']);

/** @throws ERR_CELERY_OUTBOX_INVALID_TASK also for a property that would be dropped. */
export function assertCalls(calls: unknown): void {
  const isCall = (call: unknown): boolean =>
    isPlainObject(call) && Object.keys(call).every((property) => PROPERTIES.has(property));
  // A hole counts: every() would pass over it.
  if (Array.isArray(calls) && Array.from(calls).every(isCall)) return;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_TASK',
    'sendTasks must be given an array of { name, args?, kwargs?, options? }',
  );
}
