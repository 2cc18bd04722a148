import { CeleryOutboxError } from '../errors';
import { parseJson, jsonMembers, type JsonValue } from './json-text';
import * as values from './option-values';
import { MAX_SHORT_STRING_BYTES } from './text';
import type { ValueRule } from './option-values';
import type { StoredOptions } from './stored-options';

/** Options that are spliced into the message as they were stored. */
type Spliced = 'link' | 'link_error' | 'chain' | 'chord' | 'headers';
type Read = Omit<StoredOptions, Spliced | 'task_id' | 'countdown' | 'expires'> & {
  readonly expires?: string;
} & Readonly<Partial<Record<Spliced, string>>>;

/** Stored options, read for the message. */
export type MessageOptions = Read;

type Rule = (text: string, name: string) => unknown;

const parsed =
  <T>(rule: ValueRule<T>): Rule =>
  (text, name) =>
    rule(parseJson(text), name);

const splice =
  (opening: '[' | '{', expected: string): Rule =>
  (text, name) => {
    if (text.startsWith(opening)) return text;
    throw new CeleryOutboxError('ERR_CELERY_OUTBOX_INVALID_OPTION', `Option ${name} must be ${expected}`);
  };

const id = parsed(values.text({ maxBytes: MAX_SHORT_STRING_BYTES }));
const display = parsed(values.text({ mayBeEmpty: true }));
const count = parsed(values.integer(0, Number.MAX_SAFE_INTEGER));
const instant = parsed(values.instant);
const seconds = parsed(values.number('a number of seconds', Number.isFinite));
const signatures = splice('[', 'an array of signatures');
const object = splice('{', 'an object');

const RULES: Readonly<Record<keyof Read, Rule>> = {
  eta: instant,
  expires: instant,
  queue: id,
  exchange: parsed(values.text({ maxBytes: MAX_SHORT_STRING_BYTES, mayBeEmpty: true })),
  routing_key: id,
  priority: parsed(values.integer(0, 255)),
  time_limit: seconds,
  soft_time_limit: seconds,
  retries: count,
  shadow: display,
  headers: object,
  link: signatures,
  link_error: signatures,
  chain: signatures,
  chord: object,
  chord_size: (text, name) => sizes(parseJson(text), name),
  group_id: id,
  group_index: count,
  root_id: id,
  parent_id: id,
  reply_to: id,
  correlation_id: id,
  ignore_result: parsed(values.flag),
  argsrepr: display,
  kwargsrepr: display,
  compression: parsed(values.oneOf('zlib', 'gzip')),
  delivery_mode: parsed(values.oneOf(1, 2)),
  message_id: id,
  app_id: id,
  type: id,
  timestamp: count,
};

const NO_OPTIONS: MessageOptions = Object.freeze({});

/**
 * Reads the options of a stored task. They were checked when they were written; but rows can be edited, and a newer
 * version may have written them.
 *
 * @throws ERR_CELERY_OUTBOX_UNKNOWN_OPTION, ERR_CELERY_OUTBOX_INVALID_OPTION
 */
export function readOptions(text: string): MessageOptions {
  if (text === '{}') return NO_OPTIONS;
  if (!text.trimStart().startsWith('{')) {
    throw new CeleryOutboxError('ERR_CELERY_OUTBOX_INVALID_OPTION', 'options must be an object');
  }
  const options: Record<string, unknown> = {};
  for (const [name, member] of jsonMembers(text)) {
    if (!isKnown(name)) {
      throw new CeleryOutboxError(
        'ERR_CELERY_OUTBOX_UNKNOWN_OPTION',
        `Unknown option ${JSON.stringify(name)}`,
      );
    }
    options[name] = RULES[name](member, name);
  }
  return options;
}

function isKnown(name: string): name is keyof Read {
  return Object.hasOwn(RULES, name);
}

function sizes(value: JsonValue, name: string): Readonly<Record<string, number>> {
  const isSize = (size: unknown): boolean => typeof size === 'number' && Number.isInteger(size) && size > 0;
  const isSizes =
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every(isSize);
  if (isSizes) return value as Readonly<Record<string, number>>;
  throw new CeleryOutboxError('ERR_CELERY_OUTBOX_INVALID_OPTION', `Option ${name} must be sizes by group id`);
}
