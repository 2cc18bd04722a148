import * as values from './option-values';
import { MAX_SHORT_STRING_BYTES } from './text';
import type { ValueRule } from './option-values';
import type { CheckedFields } from './stored-options';
import type { TaskOptions } from './task-options';

export type OptionName = keyof TaskOptions;

/** Checks one option and stores it under Celery's name. */
export type OptionRule = (value: unknown, option: OptionName, stored: Partial<CheckedFields>) => void;

function keep<Name extends keyof CheckedFields>(
  name: Name,
  rule: ValueRule<CheckedFields[Name]>,
): OptionRule {
  return (value, option, stored) => {
    stored[name] = rule(value, option);
  };
}

const MAX_KEY_BYTES = 1024;
const MAX_SMALLINT = 32_767;
/** Four bytes for each of the 1024 characters that Celery itself writes at most. */
const MAX_DISPLAY_BYTES = 4096;

const id = values.text({ maxBytes: MAX_SHORT_STRING_BYTES });
const key = values.text({ maxBytes: MAX_KEY_BYTES });
const display = values.text({ maxBytes: MAX_DISPLAY_BYTES, mayBeEmpty: true });
const nonNegative = values.number(
  'a finite number of seconds, 0 or more',
  (n) => Number.isFinite(n) && n >= 0,
);
const positive = values.number('a finite number of seconds above 0', (n) => Number.isFinite(n) && n > 0);

/** Every option there is. */
export const OPTION_RULES: Readonly<Record<OptionName, OptionRule>> = {
  taskId: keep('task_id', id),
  countdown: keep('countdown', nonNegative),
  eta: keep('eta', values.embeddedInstant),
  expires: keep('expires', values.secondsOrInstant),
  queue: keep('queue', id),
  exchange: keep('exchange', values.text({ maxBytes: MAX_SHORT_STRING_BYTES, mayBeEmpty: true })),
  routingKey: keep('routing_key', id),
  priority: keep('priority', values.integer(0, 255)),
  timeLimit: keep('time_limit', positive),
  softTimeLimit: keep('soft_time_limit', positive),
  retries: keep('retries', values.integer(0, MAX_SMALLINT)),
  shadow: keep('shadow', values.text({ maxBytes: MAX_DISPLAY_BYTES })),
  headers: keep('headers', values.headers),
  link: keep('link', values.canvases),
  linkError: keep('link_error', values.canvases),
  chain: keep('chain', values.steps),
  chord: keep('chord', values.chordBody),
  groupId: keep('group_id', id),
  groupIndex: keep('group_index', values.integer(0, Number.MAX_SAFE_INTEGER)),
  rootId: keep('root_id', id),
  parentId: keep('parent_id', id),
  replyTo: keep('reply_to', id),
  correlationId: keep('correlation_id', id),
  ignoreResult: keep('ignore_result', values.flag),
  argsrepr: keep('argsrepr', display),
  kwargsrepr: keep('kwargsrepr', display),
  compression: keep('compression', values.oneOf('zlib', 'gzip')),
  deliveryMode: keep('delivery_mode', values.oneOf(1, 2)),
  messageId: keep('message_id', id),
  appId: keep('app_id', id),
  type: keep('type', id),
  timestamp: keep('timestamp', values.integer(0, Number.MAX_SAFE_INTEGER)),
  orderingKey: keep('ordering_key', key),
  idempotencyKey: keep('idempotency_key', key),
  holdUntil: keep('hold_until', values.instant),
};
