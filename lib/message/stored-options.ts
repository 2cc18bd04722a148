import { CeleryOutboxError } from '../errors';
import { formatAfter, formatInstant } from './time';
import type { EncodedJson } from './json';

/** A signature as Celery writes it into messages. */
export interface CelerySignature {
  readonly task: string;
  readonly args: EncodedJson | readonly never[];
  readonly kwargs: EncodedJson | Readonly<Record<string, unknown>>;
  readonly options: Readonly<Record<string, unknown>>;
  readonly subtask_type: 'chain' | 'group' | 'chord' | null;
  readonly immutable: boolean;
}

/** Checked options under Celery's names. */
interface StoredFields {
  task_id: string;
  countdown: number;
  eta: string;
  expires: number | string;
  queue: string;
  exchange: string;
  routing_key: string;
  priority: number;
  time_limit: number;
  soft_time_limit: number;
  retries: number;
  shadow: string;
  headers: EncodedJson;
  link: readonly CelerySignature[];
  link_error: readonly CelerySignature[];
  /** Remaining steps, last first. */
  chain: readonly CelerySignature[];
  chord: EncodedJson;
  /**
   * Ours, for the relay: the size of each chord, by group id, whose header this message belongs to. The result
   * backend has to know it before the message is published. More than one if a chord is a member of another's header.
   */
  chord_size: Readonly<Record<string, number>>;
  group_id: string;
  group_index: number;
  root_id: string;
  parent_id: string;
  reply_to: string;
  correlation_id: string;
  ignore_result: boolean;
  argsrepr: string;
  kwargsrepr: string;
  compression: 'zlib' | 'gzip';
  delivery_mode: 1 | 2;
  message_id: string;
  app_id: string;
  type: string;
  timestamp: number;
}

/** Options of a call that are about the row, not about the message. */
interface RowFields {
  ordering_key: string;
  idempotency_key: string;
  hold_until: string;
}

export type StoredOptions = Readonly<Partial<StoredFields>>;
export type CheckedFields = StoredFields & RowFields;
export type CheckedOptions = Readonly<Partial<CheckedFields>>;

/** Later options win, but callbacks add up, and either way of delaying a task replaces the other. */
export function mergeOptions(own: StoredOptions, given: StoredOptions): StoredOptions {
  const { countdown: _countdown, eta: _eta, ...untimed } = own;
  const isDelayed = given.countdown !== undefined || given.eta !== undefined;
  return {
    ...(isDelayed ? untimed : own),
    ...given,
    ...concatenated('link', own, given),
    ...concatenated('link_error', own, given),
  };
}

/** The callbacks of both, as an option; none if there are none. */
export function concatenated(
  name: 'link' | 'link_error',
  own: StoredOptions,
  given: StoredOptions,
): StoredOptions {
  const all = [...(own[name] ?? []), ...(given[name] ?? [])];
  return all.length === 0 ? {} : { [name]: all };
}

/**
 * Makes `countdown` and relative `expires` absolute: the row may wait in the outbox, and its times must not move. Writes
 * all of them in one form, which every worker reads right.
 *
 * @throws ERR_CELERY_OUTBOX_INVALID_OPTION beyond the year 9999
 */
export function resolveTimes({ countdown, eta, expires, ...rest }: StoredOptions, now: Date): StoredOptions {
  return {
    ...rest,
    ...(eta === undefined ? {} : { eta: formatInstant(eta) ?? eta }),
    // As in Celery, 0 means no eta rather than an eta of now.
    ...(countdown ? { eta: after(now, countdown, 'countdown') } : {}),
    ...(expires === undefined ? {} : { expires: absolute(expires, now) }),
  };
}

function absolute(expires: number | string, now: Date): string {
  return typeof expires === 'string' ? expires : after(now, expires, 'expires');
}

function after(now: Date, seconds: number, option: string): string {
  const instant = formatAfter(now, seconds);
  if (instant !== null) return instant;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_OPTION',
    `Option ${option} must end within the years 1 to 9999, got number ${String(seconds)}`,
  );
}
