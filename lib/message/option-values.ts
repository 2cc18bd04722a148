import { CeleryOutboxError } from '../errors';
import { Canvas } from './canvas';
import { encodeHeaders } from './check-headers';
import { EncodedJson, snapshotJson } from './json';
import { textFault, type TextRule } from './text';
import { embedInstant, formatInstant } from './time';
import { unexpected } from './unexpected';
import type { CelerySignature } from './stored-options';

/** Checks a value given for an option and returns it as it is stored. */
export type ValueRule<T> = (value: unknown, option: string) => T;

const invalid = (option: string, expected: string, value: unknown): CeleryOutboxError =>
  unexpected('ERR_CELERY_OUTBOX_INVALID_OPTION', `Option ${option}`, expected, value);

export function text(rule: TextRule): ValueRule<string> {
  return (value, option) => {
    const fault = textFault(value, rule);
    if (fault === null && typeof value === 'string') return value;
    throw invalid(option, fault ?? 'a string', value);
  };
}

export function number(expected: string, accepts: (value: number) => boolean): ValueRule<number> {
  return (value, option) => {
    if (typeof value === 'number' && accepts(value)) return value;
    throw invalid(option, expected, value);
  };
}

export function integer(min: number, max: number): ValueRule<number> {
  const accepts = (value: number): boolean => Number.isInteger(value) && value >= min && value <= max;
  return number(`an integer from ${String(min)} to ${String(max)}`, accepts);
}

export const flag: ValueRule<boolean> = (value, option) => {
  if (typeof value === 'boolean') return value;
  throw invalid(option, 'true or false', value);
};

export const instant = instantAs(formatInstant);
/** As it stands inside a signature. */
export const embeddedInstant = instantAs(embedInstant);

function instantAs(format: (value: unknown) => string | null): ValueRule<string> {
  return (value, option) => {
    const formatted = format(value);
    if (formatted !== null) return formatted;
    throw invalid(option, 'a valid Date or ISO 8601 string within the years 1 to 9999', value);
  };
}

export const secondsOrInstant: ValueRule<number | string> = (value, option) => {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  const formatted = formatInstant(value);
  if (formatted !== null) return formatted;
  throw invalid(
    option,
    'a number of seconds, or a valid Date or ISO 8601 string within the years 1 to 9999',
    value,
  );
};

export const headers: ValueRule<EncodedJson> = (value, option) => {
  const encoded = encodeHeaders(value, option);
  if (encoded instanceof EncodedJson) return encoded;
  throw invalid(encoded.what, encoded.expected, encoded.value);
};

export function oneOf<T extends string | number>(...choices: readonly T[]): ValueRule<T> {
  return (value, option) => {
    const found = choices.find((choice) => choice === value);
    if (found !== undefined) return found;
    throw invalid(option, choices.map((choice) => JSON.stringify(choice)).join(' or '), value);
  };
}

export const canvas: ValueRule<CelerySignature> = (value, option) => {
  if (value instanceof Canvas) return value.toCelery();
  throw invalid(option, 'a signature, chain, group or chord', value);
};

export const chordBody: ValueRule<EncodedJson> = (value, option) =>
  snapshotJson(canvas(value, option), option);

export const canvases: ValueRule<CelerySignature[]> = (value, option) => {
  if (!Array.isArray(value)) return [canvas(value, option)];
  return value.map((item, index) => canvas(item, `${option}[${String(index)}]`));
};

export const steps: ValueRule<CelerySignature[]> = (value, option) => {
  if (!Array.isArray(value))
    throw invalid(option, 'an array of signatures in the order in which they run', value);
  const signatures = canvases(value, option);
  // A worker hands the rest of the chain to every member of such a group; chain() makes a chord of it instead.
  const groupAt = signatures.slice(0, -1).findIndex((signature) => signature.subtask_type === 'group');
  if (groupAt !== -1) {
    const place = `${option}[${String(groupAt)}]`;
    throw invalid(
      place,
      'the last step if it is a group: give chain(group, ...rest) instead',
      value[groupAt],
    );
  }
  return signatures.reverse();
};
