/** One part of a glob: a star, a question mark, a set (of which a bracket can be the first member), or a character. */
const PARTS = /\*|\?|\[(!|(?!!))(.[^\]]*)\]|./gsu;

/** A range, or one character. */
const SET_MEMBERS = /(.)-(.)|./gsu;

/** A shell pattern as Python's `fnmatch` reads it: case counts, a dot is nothing special, `[!…]` negates. */
export function globPattern(glob: string): RegExp {
  const source = glob.replaceAll(PARTS, (part, not?: string, set?: string) => {
    if (part === '*') return '.*';
    if (part === '?') return '.';
    return set === undefined ? literal(part) : `[${not === '!' ? '^' : ''}${members(set)}]`;
  });
  return new RegExp(`^${source}$`, 'su');
}

/** A range that ends before it begins, as `z-a`, holds nothing. */
function members(set: string): string {
  return set.replaceAll(SET_MEMBERS, (member, from?: string, to?: string) => {
    if (from === undefined || to === undefined) return literal(member);
    return codePoint(from) > codePoint(to) ? '' : `${literal(from)}-${literal(to)}`;
  });
}

function literal(char: string): string {
  return String.raw`\u{${codePoint(char).toString(16)}}`;
}

function codePoint(char: string): number {
  return char.codePointAt(0) as number;
}
