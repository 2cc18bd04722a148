import { CeleryOutboxError } from '../errors';
import { shorten } from './unexpected';

interface Payload {
  readonly taskName: string;
  readonly args: string;
  readonly kwargs: string;
  readonly options: string;
}

/** @throws ERR_CELERY_OUTBOX_PAYLOAD_TOO_LARGE if args, kwargs and options have more bytes of UTF-8 together */
export function refuseOversized({ taskName, args, kwargs, options }: Payload, maxPayloadBytes: number): void {
  const texts = [args, kwargs, options];
  const units = texts.reduce((sum, text) => sum + text.length, 0);
  // A UTF-16 unit is one to three bytes: most payloads need not be counted, and a giant one must not be.
  if (units * 3 <= maxPayloadBytes) return;
  const isGiant = units > maxPayloadBytes;
  const bytes = isGiant ? units : texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  if (bytes <= maxPayloadBytes) return;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_PAYLOAD_TOO_LARGE',
    `Task ${shorten(taskName, 100)} has ${isGiant ? 'at least ' : ''}${String(bytes)} bytes of args, kwargs and ` +
      `options; maxPayloadBytes is ${String(maxPayloadBytes)}`,
  );
}
