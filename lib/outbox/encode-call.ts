import { encodeTask, type EncodedTask, type EncodeSettings } from '../message/encode-task';
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

/** A call as users write it, with the transaction still among its options. */
export interface UncheckedCall {
  readonly name: string;
  readonly args?: readonly unknown[] | undefined;
  readonly kwargs?: object | undefined;
  readonly options?: SendOptions | undefined;
}

export function encodeCall(
  { name, args, kwargs, options }: UncheckedCall,
  encoding: EncodeSettings,
): EncodedTask {
  if (typeof options !== 'object') return encodeTask({ name, args, kwargs, options }, encoding);
  const { trx: _trx, ...rest } = options;
  return encodeTask({ name, args, kwargs, options: rest }, encoding);
}
