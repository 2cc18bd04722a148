import { CeleryOutboxError } from '../errors';
import { nearestName } from './nearest-name';
import { OPTION_RULES, type OptionName } from './option-rules';
import { isPlainObject } from './plain-object';
import { shorten, unexpected } from './unexpected';
import type { CheckedFields, CheckedOptions } from './stored-options';

/** Which options a call takes, and what to say about one that exists but not there. */
export interface OptionScope {
  readonly excluded: ReadonlySet<OptionName>;
  readonly reason: string;
}

const PLACEMENT: readonly OptionName[] = ['chain', 'chord', 'groupId', 'groupIndex'];

export const TASK_SCOPE: OptionScope = { excluded: new Set(), reason: '' };
export const CANVAS_SCOPE: OptionScope = {
  excluded: new Set(PLACEMENT),
  reason: 'is given by the canvas itself: use chain(), group() or chord()',
};
export const SIGNATURE_SCOPE: OptionScope = {
  excluded: new Set<OptionName>([...PLACEMENT, 'orderingKey', 'idempotencyKey', 'holdUntil']),
  reason:
    'cannot be kept in a signature: give it to the call that sends the canvas, or use chain(), group(), chord()',
};

const NO_OPTIONS: CheckedOptions = {};

/**
 * Checks options and gives them Celery's names. Times that count from the call stay relative.
 *
 * @throws ERR_CELERY_OUTBOX_UNKNOWN_OPTION for a name that does not exist or cannot be kept there
 * @throws ERR_CELERY_OUTBOX_INVALID_OPTION for a wrong value
 * @throws ERR_CELERY_OUTBOX_UNENCODABLE for a header that is not JSON
 */
export function checkOptions(options: unknown, scope: OptionScope): CheckedOptions {
  if (options === undefined) return NO_OPTIONS;
  if (!isPlainObject(options)) {
    throw unexpected('ERR_CELERY_OUTBOX_INVALID_OPTION', 'options', 'a plain object', options);
  }
  const checked: Partial<CheckedFields> = {};
  for (const [name, value] of Object.entries(options)) {
    if (!isOptionName(name)) throw unknownOption(name, scope);
    if (scope.excluded.has(name)) throw unkept(`Option ${name} ${scope.reason}`);
    if (value !== undefined) OPTION_RULES[name](value, name, checked);
  }
  if (checked.countdown !== undefined && checked.eta !== undefined) {
    throw new CeleryOutboxError(
      'ERR_CELERY_OUTBOX_INVALID_OPTION',
      'Options countdown and eta both say when the task may start: give one of them',
    );
  }
  return checked;
}

function isOptionName(name: string): name is OptionName {
  return Object.hasOwn(OPTION_RULES, name);
}

function unknownOption(name: string, scope: OptionScope): CeleryOutboxError {
  const known = Object.keys(OPTION_RULES).filter(
    (option) => isOptionName(option) && !scope.excluded.has(option),
  );
  const nearest = nearestName(name, known);
  const hint = nearest === null ? '' : `: did you mean ${nearest}?`;
  return unkept(`Unknown option ${JSON.stringify(shorten(name))}${hint}`);
}

function unkept(message: string): CeleryOutboxError {
  return new CeleryOutboxError('ERR_CELERY_OUTBOX_UNKNOWN_OPTION', message);
}
