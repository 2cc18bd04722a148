import { CeleryOutboxError } from '../errors';
import {
  encodePrimitive,
  hasEnumerableSymbol,
  isThenable,
  isTypeTag,
  quote,
  refuseObject,
  Refusal,
  unbox,
} from './json-leaf';
import { describePath, type PathKey } from './json-path';
import { tagOf } from './unexpected';

/** Python's decoder recurses once a level and gives up at about 1000; half of it leaves room for the message around. */
export const MAX_JSON_DEPTH = 500;

/** JSON text that {@link encodeJson} has already checked, so that it is written again as it is. */
export class EncodedJson {
  constructor(
    readonly text: string,
    readonly depth: number,
  ) {}
}

/**
 * Writes a value as JSON text without loss, or refuses it.
 *
 * Kept: integers of any size (BigInt), `-0`, lone surrogates, key order. Converted as `JSON.stringify` does: Date,
 * `toJSON`, boxed primitives, class instances (own enumerable properties); a property that is `undefined` is left
 * out. Refused, where `JSON.stringify` would lose them silently: NaN and infinities, `undefined` in an array,
 * functions, symbols, Map, Set, Promise, RegExp, Error, binary data. Refused too: cycles, more than 500 levels, and an
 * object of exactly `__type__` and `__value__`, which Celery >= 5.3 would decode into something else.
 *
 * @param path - name of the value in error messages, such as `args`
 * @throws ERR_CELERY_OUTBOX_UNENCODABLE naming the path of the offending value
 */
export function encodeJson(value: unknown, path: string): string {
  return snapshotJson(value, path).text;
}

/** As {@link encodeJson}; the result can be embedded in other values any number of times without being walked again. */
export function snapshotJson(value: unknown, path: string): EncodedJson {
  const writer = new JsonWriter();
  try {
    const text = writer.write(value);
    if (text === undefined) throw new Refusal('undefined is not JSON');
    return new EncodedJson(text, writer.deepest);
  } catch (error) {
    const where = path + describePath(writer.path());
    if (error instanceof Refusal) {
      throw new CeleryOutboxError(
        'ERR_CELERY_OUTBOX_UNENCODABLE',
        `${where} cannot be encoded: ${error.message}`,
      );
    }
    throw new CeleryOutboxError(
      'ERR_CELERY_OUTBOX_UNENCODABLE',
      `${where} cannot be encoded: reading it threw an error`,
      { cause: error },
    );
  }
}

interface Convertible {
  toJSON(key: string): unknown;
}

function isConvertible(value: object): value is Convertible {
  return typeof (value as { toJSON?: unknown }).toJSON === 'function';
}

class JsonWriter {
  deepest = 0;
  private depth = 0;
  private readonly ancestors: object[] = [];
  private readonly keys: PathKey[] = [];

  /** Where the writer is; after a refusal, where it stopped. */
  path(): PathKey[] {
    return this.keys.slice(0, this.depth);
  }

  /** The text, or undefined for `undefined`, which only the container can judge. */
  write(value: unknown): string | undefined {
    return typeof value === 'object' && value !== null ? this.object(value) : encodePrimitive(value);
  }

  private object(value: object): string | undefined {
    return isConvertible(value) ? this.converted(value) : this.structure(value);
  }

  private converted(value: Convertible): string | undefined {
    if (ArrayBuffer.isView(value)) throw refuseObject(value);
    if (value instanceof Date && Number.isNaN(value.getTime())) throw new Refusal('it is an invalid Date');
    const key = this.depth === 0 ? '' : String(this.keys[this.depth - 1]);
    const result = value.toJSON(key);
    // As JSON.stringify: the result's own toJSON is not called, so one that returns `this` ends here.
    return typeof result === 'object' && result !== null ? this.structure(result) : encodePrimitive(result);
  }

  private structure(value: object): string | undefined {
    if (Array.isArray(value)) return this.array(value);
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype === Object.prototype || prototype === null) return this.record(value);
    if (value instanceof EncodedJson) return this.encoded(value);
    const unboxed = unbox(value);
    if (unboxed !== undefined) return encodePrimitive(unboxed);
    if (tagOf(value) !== 'Object' || isThenable(value)) throw refuseObject(value);
    return this.record(value);
  }

  private array(value: readonly unknown[]): string {
    this.enter(value);
    let text = '[';
    for (let index = 0; index < value.length; index++) {
      this.keys[this.depth - 1] = index;
      const item = this.write(value[index]);
      if (item === undefined) throw new Refusal('undefined or a hole in an array; use null');
      text += index === 0 ? item : ',' + item;
    }
    this.depth--;
    return text + ']';
  }

  private record(value: object): string {
    this.enter(value);
    let text = '{';
    let written = 0;
    for (const key of Object.keys(value)) {
      this.keys[this.depth - 1] = key;
      const item = this.write((value as Record<string, unknown>)[key]);
      if (item === undefined) continue;
      text += (written++ === 0 ? '' : ',') + quote(key) + ':' + item;
    }
    this.depth--;
    if (written === 2 && isTypeTag(value))
      throw new Refusal('Celery reads an object of exactly __type__ and __value__ as a tagged value');
    if (hasEnumerableSymbol(value)) throw new Refusal('it has a symbol as key');
    return text + '}';
  }

  private encoded(value: EncodedJson): string {
    this.reach(this.depth + value.depth);
    return value.text;
  }

  private enter(value: object): void {
    // Linear, and faster than a Set for any depth that occurs in practice.
    for (let level = 0; level < this.depth; level++) {
      if (this.ancestors[level] === value) throw new Refusal('it contains itself');
    }
    this.reach(this.depth + 1);
    this.ancestors[this.depth++] = value;
  }

  private reach(depth: number): void {
    if (depth > MAX_JSON_DEPTH)
      throw new Refusal(`it is nested deeper than ${String(MAX_JSON_DEPTH)} levels`);
    if (depth > this.deepest) this.deepest = depth;
  }
}
