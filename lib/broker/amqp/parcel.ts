import type { Options } from 'amqplib';
import type { CeleryMessage } from '../../message/celery-message';
import { withoutHeaders } from '../../message/message-headers';
import { LOG_CONTEXT_HEADER } from '../../message/protocol-headers';
import { toFieldTable } from './field-table';

/** A message as amqplib takes it. */
export interface Parcel {
  readonly exchange: string;
  readonly routingKey: string;
  readonly body: Buffer;
  readonly options: Options.Publish;
  /** Where the rest of it comes from. */
  readonly message: CeleryMessage;
}

/** Where it goes, if that is not where its route says. */
export interface Detour {
  readonly exchange: string;
  readonly routingKey: string;
  /** Milliseconds that it stays underway. */
  readonly delayMs: number;
}

export function toParcel(message: CeleryMessage, detour: Detour | null): Parcel {
  const { exchange, routingKey } = detour ?? message.route;
  const { expiration, ...properties } = message.properties;
  // On its way through the delay queues a message that expires before its delay is over would arrive too early.
  const expires = expiration !== undefined && Number(expiration) >= (detour?.delayMs ?? 0);
  return {
    exchange,
    routingKey,
    body: message.body,
    options: {
      mandatory: true,
      contentType: 'application/json',
      contentEncoding: 'utf-8',
      headers: toFieldTable(message.headers),
      ...properties,
      ...(expires && { expiration }),
    },
    message,
  };
}

/**
 * The same with less of the caller's context in its headers, of which amqplib takes 64 KiB: first without log context,
 * then without any. Null if there is nothing left to leave out.
 */
export function lighter(parcel: Parcel): Parcel | null {
  const { contextHeaders: context, headers } = parcel.message;
  if (context.length === 0) return null;
  const hasLog = context.includes(LOG_CONTEXT_HEADER);
  const dropped = hasLog ? [LOG_CONTEXT_HEADER] : context;
  const message = {
    ...parcel.message,
    headers: withoutHeaders(headers, dropped),
    contextHeaders: context.filter((name) => !dropped.includes(name)),
  };
  return { ...parcel, message, options: { ...parcel.options, headers: toFieldTable(message.headers) } };
}

/** Where a message goes, for people. */
export function placeOf({ exchange, routingKey }: { exchange: string; routingKey: string }): string {
  if (exchange === '') return `for queue ${JSON.stringify(routingKey)}`;
  return `to exchange ${JSON.stringify(exchange)} with routing key ${JSON.stringify(routingKey)}`;
}
