import { createHash } from 'node:crypto';
import type { QueuedMessage } from './broker-harness';

const READABLE_BYTES = 10_000;

/** What must be the same in a message and in its queue, in a form that can be compared, and read if it differs. */
export function asGiven({ headers, properties, body }: QueuedMessage): unknown {
  return {
    headers: comparable(headers),
    properties: comparable(properties),
    bytes: body.length,
    body:
      body.length > READABLE_BYTES
        ? createHash('sha256').update(body).digest('hex')
        : body.toString('latin1'),
  };
}

/** Integers are equal whether they are read as a number or as a BigInt; an absent property is an undefined one. */
function comparable(value: unknown): unknown {
  if (typeof value === 'bigint') return isSafe(value) ? Number(value) : value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(comparable);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.map(([name, member]) => [name, comparable(member)]));
}

function isSafe(value: bigint): boolean {
  return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER;
}
