import { randomUUID } from 'node:crypto';
import type { CeleryMessage } from '../../message/celery-message';
import { encodeJson } from '../../message/json';

/**
 * A message as kombu's Redis transport lays it out, but for its delivery tag, the last value: a message that goes to
 * several queues is written once.
 *
 * @throws if a header is not JSON
 */
export class Envelope {
  readonly #head: string;

  constructor({ headers, properties, route, body }: CeleryMessage) {
    const { messageId, appId, type, timestamp, replyTo, expiration } = properties;
    this.#head =
      `{"body":"${body.toString('base64')}","content-encoding":"utf-8","content-type":"application/json"` +
      `,"headers":${headersText(headers)},"properties":{"correlation_id":${quote(properties.correlationId)}` +
      (replyTo === undefined ? '' : `,"reply_to":${quote(replyTo)}`) +
      `,"delivery_mode":${properties.deliveryMode},"priority":${quote(properties.priority)}` +
      (expiration === undefined ? '' : `,"expiration":${quote(expiration)}`) +
      (messageId === undefined ? '' : `,"message_id":${quote(messageId)}`) +
      (appId === undefined ? '' : `,"app_id":${quote(appId)}`) +
      (type === undefined ? '' : `,"type":${quote(type)}`) +
      (timestamp === undefined ? '' : `,"timestamp":${quote(timestamp)}`) +
      `,"delivery_info":{"exchange":${quote(route.exchange)},"routing_key":${quote(route.routingKey)}}` +
      `,"body_encoding":"base64","delivery_tag":"`;
  }

  /** A copy for one queue; workers keep what they have not acknowledged under its tag. */
  seal(): string {
    return `${this.#head}${randomUUID()}"}}`;
  }
}

// encodeJson is for what JSON.stringify cannot write, which is BigInt; that is rare, and it is the slower one.
function headersText(headers: CeleryMessage['headers']): string {
  try {
    return JSON.stringify(headers);
  } catch {
    return encodeJson(headers, 'headers');
  }
}

function quote(value: string | number): string {
  return JSON.stringify(value);
}
