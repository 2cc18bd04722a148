/** A method that a client called, as far as tests need to know it. */
export interface Method {
  readonly name: string;
  /** Of a declaration: what is declared. */
  readonly of: string;
  /** Of a declaration: whether it only looks. */
  readonly isPassive: boolean;
}

const NAMES: Readonly<Record<string, string>> = {
  '20.10': 'channel.open',
  '40.10': 'exchange.declare',
  '50.10': 'queue.declare',
  '50.20': 'queue.bind',
  '60.40': 'basic.publish',
};

const PROTOCOL_HEADER_BYTES = 8;
const FRAME_HEADER_BYTES = 7;
const METHOD = 1;
/** Class, method and a reserved number. */
const BEFORE_NAME_BYTES = 6;

/** The methods among those above that a client called, from all that it sent over one connection. */
export function methodsOf(sent: Buffer): Method[] {
  const methods: Method[] = [];
  let at = PROTOCOL_HEADER_BYTES;
  while (at + FRAME_HEADER_BYTES < sent.length) {
    const start = at + FRAME_HEADER_BYTES;
    const end = start + sent.readUInt32BE(at + 3);
    if (sent[at] === METHOD) methods.push(...parse(sent.subarray(start, end)));
    at = end + 1;
  }
  return methods;
}

function parse(payload: Buffer): Method[] {
  const name = NAMES[`${payload.readUInt16BE(0)}.${payload.readUInt16BE(2)}`];
  if (name === undefined) return [];
  if (!name.endsWith('.declare')) return [{ name, of: '', isPassive: false }];
  const [of, afterName] = shortString(payload, BEFORE_NAME_BYTES);
  const flagsAt = name === 'exchange.declare' ? shortString(payload, afterName)[1] : afterName;
  return [{ name, of, isPassive: (payload.readUInt8(flagsAt) & 1) === 1 }];
}

function shortString(from: Buffer, at: number): [text: string, end: number] {
  const end = at + 1 + from.readUInt8(at);
  return [from.toString('utf8', at + 1, end), end];
}
