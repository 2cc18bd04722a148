import type { JsonValue } from '../../message/json-text';

const MAX_INT32 = 2 ** 31;

/**
 * Headers with the type of every number spelled out. amqplib would write integers of 128 to 32767 as int16, which
 * py-amqp reads as a string, and -1 as a byte, which it reads as 255: either stops a worker.
 */
export function toFieldTable(headers: Readonly<Record<string, JsonValue>>): Record<string, unknown> {
  // Not by assignment: a header named __proto__ would become one.
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, toField(value)]));
}

function toField(value: JsonValue): unknown {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return toNumber(value);
  if (typeof value === 'bigint') return { '!': 'long', value };
  if (typeof value !== 'object' || value === null) return value;
  if (isArray(value)) return value.map(toField);
  const table = toFieldTable(value);
  // amqplib takes an object with an own property `!` for a tagged value. It writes inherited properties too.
  return Object.hasOwn(table, '!') ? (Object.create(table) as unknown) : table;
}

function toNumber(value: number): unknown {
  // RabbitMQ would close the connection.
  if (!Number.isFinite(value)) throw new TypeError(`a header holds ${String(value)}`);
  if (!Number.isSafeInteger(value) || Object.is(value, -0)) return { '!': 'double', value };
  return { '!': value >= -MAX_INT32 && value < MAX_INT32 ? 'int' : 'long', value };
}

function isArray(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}
