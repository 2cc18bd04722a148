import type { JsonValue } from '../../lib/testing';

const HEADER_FRAME = 2;
const HAS_CONTENT_TYPE = 1 << 15;
const HAS_CONTENT_ENCODING = 1 << 14;

/**
 * The headers of every message in what a server has sent, in its order. amqplib's own decoder reads 64 bits as a
 * number, which cannot hold them.
 */
export function readHeaders(frames: Buffer): Record<string, JsonValue>[] {
  const found: Record<string, JsonValue>[] = [];
  for (let at = 0; at < frames.length;) {
    const size = frames.readUInt32BE(at + 3);
    if (frames[at] === HEADER_FRAME) found.push(headersOf(frames.subarray(at + 7, at + 7 + size)));
    at += size + 8;
  }
  return found;
}

function headersOf(payload: Buffer): Record<string, JsonValue> {
  const flags = payload.readUInt16BE(12);
  const reader = new FieldReader(payload.subarray(14));
  if (flags & HAS_CONTENT_TYPE) reader.shortText();
  if (flags & HAS_CONTENT_ENCODING) reader.shortText();
  return reader.table();
}

/** Reads fields of AMQP 0-9-1, as RabbitMQ understands their types. */
class FieldReader {
  #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  shortText(): string {
    return this.#take(this.#take(1).readUInt8()).toString();
  }

  table(): Record<string, JsonValue> {
    const inner = new FieldReader(this.#long());
    const members: [string, JsonValue][] = [];
    while (inner.#bytes.length > 0) members.push([inner.shortText(), inner.#value()]);
    return Object.fromEntries(members);
  }

  #value(): JsonValue {
    const type = this.#take(1).toString('latin1');
    switch (type) {
      case 'S':
        return this.#long().toString();
      case 'I':
        return this.#take(4).readInt32BE();
      case 'l':
        return this.#take(8).readBigInt64BE();
      case 'd':
        return this.#take(8).readDoubleBE();
      case 't':
        return this.#take(1).readUInt8() !== 0;
      case 'V':
        return null;
      case 'F':
        return this.table();
      case 'A':
        return new FieldReader(this.#long()).#values();
      default:
        throw new Error(`a field of type ${type}, which no worker would read as it is meant`);
    }
  }

  #values(): JsonValue[] {
    const values: JsonValue[] = [];
    while (this.#bytes.length > 0) values.push(this.#value());
    return values;
  }

  #long(): Buffer {
    return this.#take(this.#take(4).readUInt32BE());
  }

  #take(count: number): Buffer {
    const taken = this.#bytes.subarray(0, count);
    this.#bytes = this.#bytes.subarray(count);
    return taken;
  }
}
