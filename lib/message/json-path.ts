import { shorten } from './unexpected';

export type PathKey = string | number;

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;
const MAX_KEY = 60;
const KEYS_AT_START = 12;
const KEYS_AT_END = 4;

/** `[0].items["weird key"].x`; the middle of a very deep path is left out. */
export function describePath(keys: readonly PathKey[]): string {
  if (keys.length <= KEYS_AT_START + KEYS_AT_END) return keys.map(describeKey).join('');
  return `${describePath(keys.slice(0, KEYS_AT_START))}…${describePath(keys.slice(-KEYS_AT_END))}`;
}

function describeKey(key: PathKey): string {
  if (typeof key === 'number') return `[${String(key)}]`;
  const short = shorten(key, MAX_KEY);
  return IDENTIFIER.test(key) ? `.${short}` : `[${JSON.stringify(short)}]`;
}
