import { CeleryOutboxError } from '../../errors';
import { EncodedJson, encodeJson, snapshotJson } from '../json';
import type { CelerySignature } from '../stored-options';
import type { Sending } from './sending';

/**
 * Options under Celery's names. Values are JSON, drafts, plain copies of drafts, or lists of these; and null, which
 * Celery writes in places.
 */
export type DraftOptions = Record<string, unknown>;

/** What the canvas around it says of a draft. */
export interface Place {
  /** For the task that ends the draft; one that has an id keeps it. */
  readonly id?: string | undefined;
  readonly groupId?: string | undefined;
  readonly groupIndex?: number | undefined;
  /** Body of the chord whose header the draft belongs to. */
  readonly chord?: unknown;
  readonly rootId?: string | undefined;
  readonly parentId?: string | undefined;
}

/** Where the result of a draft will be: that of one task, or one for each member of a group. */
export type DraftResult =
  { readonly taskId: string } | { readonly groupId: string; readonly members: readonly DraftResult[] };

/**
 * A canvas on its way into messages: a copy that is given ids and changed until it is sent.
 *
 * Its operations do what those of Celery 5.2 do to its dicts, step by step, for that decides what is on the wire: who
 * gets which option, what a null stands for, and which of two holders of the same object sees a later change. So
 * clones share what Celery's clones share. `test/interop/canvas-equals-celery.test.ts` compares the two.
 */
export abstract class Draft {
  constructor(public options: DraftOptions) {}

  /** How many tasks end it: what it counts in the header of a chord. */
  abstract readonly endings: number;

  /** A copy with other options; what it holds may be shared. */
  abstract clone(given?: DraftOptions): Draft;

  /** Gives ids to it and to what it holds. */
  abstract freeze(place: Place, sending: Sending): DraftResult;

  /** Emits its messages. */
  abstract send(given: DraftOptions, sending: Sending): DraftResult;

  /** Adds an errback to every task that can fail. */
  abstract addErrback(errback: unknown): void;

  /** Puts an argument in front of those of the tasks that start it. */
  abstract prepend(arg: EncodedJson): void;

  /** Celery's dict of it but for the options, with drafts where it holds others. @internal */
  abstract fields(): DraftFields;

  /** Celery's dict of it, as it is now. @throws ERR_CELERY_OUTBOX_INVALID_OPTION */
  toCelery(rendered: Rendered = new Map()): CelerySignature {
    const { task, args, kwargs, subtask_type, immutable } = this.fields();
    const options = render(this.options, rendered) as CelerySignature['options'];
    if (typeof options['expires'] === 'string') throw absoluteExpiry(task);
    const held = render(kwargs, rendered) as CelerySignature['kwargs'];
    return { task, args, kwargs: held, options, subtask_type, immutable };
  }
}

/** Drafts that were written already: in nested chords the holders of one body multiply. */
type Rendered = Map<Draft, EncodedJson>;

export type DraftFields = Omit<CelerySignature, 'options'>;

/** A copy of a draft's surface: what the draft holds is the same object, so it shows what becomes of it. */
class SurfaceCopy {
  constructor(readonly draft: Draft) {}
}

/** Given options win, an eta also over a countdown; but a task stays in the group that it belongs to. */
export function merged(own: DraftOptions, given: DraftOptions): DraftOptions {
  const result = { ...own };
  if (isSet(given['eta'])) delete result['countdown'];
  for (const [name, value] of Object.entries(given)) {
    if (name !== 'group_id' || !Object.hasOwn(own, name)) result[name] = value;
  }
  return result;
}

export const isSet = (value: unknown): boolean => value !== undefined && value !== null;

/** As Python's `deepcopy`, to which a signature gives only a copy of its surface. */
export function copied<T>(value: T): T;
export function copied(value: unknown): unknown {
  if (value instanceof Draft) return new SurfaceCopy(value);
  if (value instanceof SurfaceCopy) return copied({ ...value.draft.fields(), options: value.draft.options });
  if (Array.isArray(value)) return value.map((item) => copied<unknown>(item));
  return isPlain(value) ? mapValues(value, copied) : value;
}

/** The same as JSON, with Celery's dicts in place of drafts. */
export function toPlain(value: unknown): unknown {
  return render(value, new Map());
}

function render(value: unknown, rendered: Rendered): unknown {
  if (value instanceof SurfaceCopy) return render(value.draft, rendered);
  if (value instanceof Draft) {
    const text = rendered.get(value) ?? snapshotJson(value.toCelery(rendered), 'canvas');
    rendered.set(value, text);
    return text;
  }
  if (Array.isArray(value)) return value.map((item) => render(item, rendered));
  return isPlain(value) ? mapValues(value, (item) => render(item, rendered)) : value;
}

/** Adds to a list option what it does not hold yet. */
export function addOnce(options: DraftOptions, name: 'link' | 'link_error', value: unknown): void {
  const items = (options[name] ?? []) as readonly unknown[];
  const text = encodeJson(toPlain(value), name);
  if (items.some((item) => encodeJson(toPlain(item), name) === text)) return;
  options[name] = [...items, value];
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !(value instanceof EncodedJson);
}

function mapValues(values: Record<string, unknown>, change: (value: unknown) => unknown): DraftOptions {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, change(value)]));
}

function absoluteExpiry(name: string): CeleryOutboxError {
  // send_task of Celery 5.2 compares the string with 0 and fails, in the worker, after the task before it succeeded.
  return new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_OPTION',
    `Option expires of ${name} must be a number of seconds: a worker sends this task, and Celery 5.2 reads no instant there`,
  );
}
