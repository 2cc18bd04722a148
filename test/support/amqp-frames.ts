/** A value of an AMQP field table, with the tag that it was written under. */
export interface Field {
  /** Where it is: `timelimit[0]`, `headers.n`. */
  readonly path: string;
  /** `S` string, `I` int32, `l` int64, `s` int16, `b` int8, `d` double, `t` boolean, `V` null, `A` array, `F` table, … */
  readonly tag: string;
  /** Null for what has no number. */
  readonly number: number | bigint | null;
}

const MAX_INT32 = 2 ** 31;

/**
 * Fields that some version of py-amqp reads as another value: of all the integers, it is sure only of int32, and of
 * int64 where int32 is too narrow.
 */
export function misreadFields(fields: readonly Field[]): Field[] {
  return fields.filter(({ tag, number }) => {
    if (tag === 'l') return number! >= -MAX_INT32 && number! < MAX_INT32;
    return !'SVIdtAF'.includes(tag);
  });
}

const PROTOCOL_HEADER_BYTES = 8;
const FRAME_HEADER_BYTES = 7;
const CONTENT_HEADER = 2;
/** Class, weight and size of the body. */
const BEFORE_FLAGS_BYTES = 12;

/** The headers of every message that a client published, from all that it sent; a list of fields for each. */
export function publishedHeaders(sent: Buffer): Field[][] {
  const messages: Field[][] = [];
  let at = PROTOCOL_HEADER_BYTES;
  while (at + FRAME_HEADER_BYTES < sent.length) {
    const start = at + FRAME_HEADER_BYTES;
    const end = start + sent.readUInt32BE(at + 3);
    if (sent[at] === CONTENT_HEADER) messages.push(headerFields(sent.subarray(start, end)));
    // The end of a frame is marked by one more byte.
    at = end + 1;
  }
  return messages;
}

/** Properties lie in the order of their flags: content type, content encoding, headers, … */
function headerFields(payload: Buffer): Field[] {
  const flags = payload.readUInt16BE(BEFORE_FLAGS_BYTES);
  const reader = new FieldReader(payload, BEFORE_FLAGS_BYTES + 2);
  if (flags & 0x8000) reader.shortString();
  if (flags & 0x4000) reader.shortString();
  if (flags & 0x2000) reader.table('');
  return reader.fields;
}

const NUMBERS: Readonly<
  Record<string, [bytes: number, read: (from: Buffer, at: number) => number | bigint]>
> = {
  b: [1, (from, at) => from.readInt8(at)],
  B: [1, (from, at) => from.readUInt8(at)],
  s: [2, (from, at) => from.readInt16BE(at)],
  u: [2, (from, at) => from.readUInt16BE(at)],
  I: [4, (from, at) => from.readInt32BE(at)],
  i: [4, (from, at) => from.readUInt32BE(at)],
  l: [8, (from, at) => from.readBigInt64BE(at)],
  L: [8, (from, at) => from.readBigInt64BE(at)],
  f: [4, (from, at) => from.readFloatBE(at)],
  d: [8, (from, at) => from.readDoubleBE(at)],
};

class FieldReader {
  readonly fields: Field[] = [];
  readonly #from: Buffer;
  #at: number;

  constructor(from: Buffer, at: number) {
    this.#from = from;
    this.#at = at;
  }

  shortString(): string {
    const start = this.#at + 1;
    this.#at = start + this.#from.readUInt8(this.#at);
    return this.#from.toString('utf8', start, this.#at);
  }

  table(path: string): void {
    const end = this.#endOfLong();
    while (this.#at < end) {
      const name = this.shortString();
      this.#field(path === '' ? name : `${path}.${name}`);
    }
  }

  #array(path: string): void {
    const end = this.#endOfLong();
    for (let index = 0; this.#at < end; index++) this.#field(`${path}[${String(index)}]`);
  }

  #field(path: string): void {
    const tag = String.fromCharCode(this.#from.readUInt8(this.#at++));
    const [bytes, read] = NUMBERS[tag] ?? [0, () => null];
    this.fields.push({ path, tag, number: read(this.#from, this.#at) });
    if (tag === 'A') this.#array(path);
    else if (tag === 'F') this.table(path);
    else if (tag === 'S' || tag === 'x') this.#at = this.#endOfLong();
    else this.#at += tag === 't' ? 1 : bytes;
    if (!'SxAFVt'.includes(tag) && bytes === 0) throw new Error(`unknown field type ${tag} at ${path}`);
  }

  /** Where something ends that begins with its length in four bytes; moves to its first byte. */
  #endOfLong(): number {
    const length = this.#from.readUInt32BE(this.#at);
    this.#at += 4;
    return this.#at + length;
  }
}
