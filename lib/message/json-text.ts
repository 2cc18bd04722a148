/** A parsed JSON value; integers that a number cannot hold are BigInts. */
export type JsonValue =
  null | boolean | number | bigint | string | readonly JsonValue[] | { readonly [key: string]: JsonValue };

const LONG_DIGITS = /\d{16}/;
const INTEGER = /^-?\d+$/;

/** Parses JSON text without loss: an integer beyond 2^53 becomes a BigInt. @throws SyntaxError */
export function parseJson(text: string): JsonValue {
  // Also where its numbers are not good enough: the scanner relies on the text being JSON.
  const value = JSON.parse(text) as JsonValue;
  return LONG_DIGITS.test(text) ? parseExactly(text.trim()) : value;
}

/** The members of a JSON object, each as the text it was written with. The text is known to be JSON. */
export function jsonMembers(text: string): Map<string, string> {
  const members = new Map<string, string>();
  let at = skipSpace(text, text.indexOf('{') + 1);
  while (text[at] === '"') {
    const keyEnd = endOfString(text, at);
    const start = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const end = endOfValue(text, start);
    members.set(JSON.parse(text.slice(at, keyEnd)) as string, text.slice(start, end));
    at = skipSpace(text, skipSpace(text, end) + 1);
  }
  return members;
}

function parseExactly(text: string): JsonValue {
  if (text.startsWith('{')) {
    return Object.fromEntries([...jsonMembers(text)].map(([key, value]) => [key, parseExactly(value)]));
  }
  if (text.startsWith('[')) return jsonItems(text).map(parseExactly);
  const value = JSON.parse(text) as string | number | boolean | null;
  if (typeof value !== 'number' || Number.isSafeInteger(value) || !INTEGER.test(text)) return value;
  return BigInt(text);
}

function jsonItems(text: string): string[] {
  const items: string[] = [];
  let at = skipSpace(text, 1);
  while (text[at] !== ']') {
    const end = endOfValue(text, at);
    items.push(text.slice(at, end));
    at = skipSpace(text, end);
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
  return items;
}

const SPACE = /[ \t\n\r]*/y;
const SCALAR = /[^,\]} \t\n\r]*/y;
const STRUCTURE = /["{}[\]]/g;

function skipSpace(text: string, at: number): number {
  return matchEnd(SPACE, text, at);
}

function endOfValue(text: string, at: number): number {
  const first = text[at];
  if (first === '"') return endOfString(text, at);
  if (first !== '{' && first !== '[') return matchEnd(SCALAR, text, at);
  let depth = 0;
  STRUCTURE.lastIndex = at;
  for (let match = STRUCTURE.exec(text); match !== null; match = STRUCTURE.exec(text)) {
    const [mark] = match;
    if (mark === '"') STRUCTURE.lastIndex = endOfString(text, match.index);
    else depth += mark === '{' || mark === '[' ? 1 : -1;
    if (depth === 0) return STRUCTURE.lastIndex;
  }
  return text.length;
}

/** The place after the closing quote: the first that is not escaped, by an odd number of backslashes. */
function endOfString(text: string, at: number): number {
  for (let quote = text.indexOf('"', at + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let slashes = 0;
    while (text[quote - 1 - slashes] === '\\') slashes++;
    if (slashes % 2 === 0) return quote + 1;
  }
  return text.length;
}

function matchEnd(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  pattern.test(text);
  return pattern.lastIndex;
}
