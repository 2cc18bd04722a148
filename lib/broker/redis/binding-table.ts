/**
 * The queues that are bound to an exchange. Redis knows no exchanges: kombu keeps a set of `key sep pattern sep queue`
 * for each, and whoever publishes does the routing.
 */
export class BindingTable {
  readonly #sep: string;
  readonly #members: Set<string>;
  readonly #found = new Map<string, readonly string[]>();

  constructor(members: readonly string[], sep: string) {
    this.#sep = sep;
    this.#members = new Set(members);
  }

  has(member: string): boolean {
    return this.#members.has(member);
  }

  add(member: string): void {
    this.#members.add(member);
    this.#found.clear();
  }

  /** Each queue once, in no order. */
  queuesFor(routingKey: string): readonly string[] {
    const found = this.#found.get(routingKey) ?? this.#match(routingKey);
    this.#found.set(routingKey, found);
    return found;
  }

  #match(routingKey: string): readonly string[] {
    const queues = new Set<string>();
    for (const member of this.#members) {
      const [key, pattern, queue] = member.split(this.#sep);
      if (queue === undefined || queue === '' || pattern === undefined) continue;
      if (pattern === '' ? key === routingKey : matches(pattern, routingKey)) queues.add(queue);
    }
    return [...queues];
  }
}

/** A binding to a topic exchange as kombu stores it: `feed.#` is `^feed\..*?$`. */
export function topicPattern(bindingKey: string): string {
  const words = bindingKey.split('.').map((word) => {
    if (word === '*') return String.raw`.*?[^\.]`;
    if (word === '#') return '.*?';
    return word.replaceAll(/[^\p{L}\p{N}#*]/gu, (char) => (char === '\0' ? String.raw`\000` : `\\${char}`));
  });
  return `^${words.join(String.raw`\.`)}$`;
}

// Written for Python's re. Without the flag u, JavaScript reads kombu's escapes (such as `\-`) in the same way.
function matches(pattern: string, routingKey: string): boolean {
  try {
    return new RegExp(pattern).test(routingKey);
  } catch {
    return false;
  }
}
