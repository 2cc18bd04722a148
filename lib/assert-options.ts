import { CeleryOutboxError } from './errors';

/** What one option must be, in words and as a check. */
export interface Rule {
  readonly expected: string;
  readonly check: (value: unknown) => boolean;
  /** What a wrong value is, where that says more than the value may show; undefined where it does not. */
  readonly describe?: (value: unknown) => string | undefined;
}
export type Rules = Readonly<Record<string, Rule>>;

const MAX_TIMER_MS = 2 ** 31 - 1;

export const text: Rule = {
  expected: 'a non-empty string',
  check: (value) => typeof value === 'string' && value !== '',
};
export const milliseconds: Rule = {
  expected: `a whole number of milliseconds from 1 to ${String(MAX_TIMER_MS)}`,
  check: (value) => isPositive(value, MAX_TIMER_MS),
};

/**
 * Checks what was given; `undefined` counts as not given.
 *
 * @throws ERR_CELERY_OUTBOX_UNKNOWN_OPTION with the options there are
 * @throws ERR_CELERY_OUTBOX_INVALID_OPTION with the option, what it must be and what it was
 */
export function assertOptions(owner: string, rules: Rules, options: unknown): void {
  if (!isRecord(options)) throw invalid(owner, 'given an object of options', options);
  for (const [name, value] of Object.entries(options)) {
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    if (rule === undefined) {
      throw new CeleryOutboxError(
        'ERR_CELERY_OUTBOX_UNKNOWN_OPTION',
        `${owner} has no option ${JSON.stringify(name)}, only: ${Object.keys(rules).join(', ')}`,
      );
    }
    if (value !== undefined && !rule.check(value)) {
      throw invalid(`${owner}: ${name}`, rule.expected, value, rule.describe?.(value));
    }
  }
}

/** @throws ERR_CELERY_OUTBOX_INVALID_OPTION if it was not given */
export function requireOption(owner: string, name: string, rules: Rules, value: unknown): void {
  if (value === undefined) throw invalid(`${owner}: ${name}`, rules[name]?.expected ?? 'given', value);
}

/**
 * For callbacks whose answer is needed now. A promise is truthy and has no fields: taken as it is, it would be
 * a wrong answer; and its rejection must not end the process.
 *
 * @throws ERR_CELERY_OUTBOX_INVALID_OPTION
 */
export function assertSync<T>(answer: T, option: string, onReject: (error: unknown) => void): T {
  if (!(answer instanceof Promise)) return answer;
  answer.catch(onReject);
  throw invalid(option, 'a function that answers at once', answer);
}

export function isFunction(value: unknown): boolean {
  return typeof value === 'function';
}

export function isPositive(value: unknown, max: number): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= max;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(what: string, expected: string, got: unknown, shown = show(got)): CeleryOutboxError {
  return new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_OPTION',
    `${what} must be ${expected}, got ${shown}`,
  );
}

// Never the text of a URL, or of what was meant to be one: it may hold a password.
function show(value: unknown): string {
  if (typeof value === 'string')
    return /[@:]/.test(value) ? 'a string that may hold credentials' : JSON.stringify(value);
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return String(value);
  if (value instanceof Promise) return 'a promise';
  return Array.isArray(value) ? 'an array' : 'an object';
}
