import { parseArgs, type ParseArgsConfig } from 'node:util';
import { UsageError } from './usage-error';

/** One flag: how its text becomes a value, and what it says of itself. */
export interface Flag<T> {
  readonly help: string;
  /** What stands for its value in the help; none for a flag without one. */
  readonly value?: string;
  /** The variable of the environment that is read where the flag is not given. */
  readonly env?: string;
  readonly parse: (text: string, name: string) => T;
}

export type Flags = Readonly<Record<string, Flag<unknown>>>;
export type FlagValues<F extends Flags> = { readonly [Name in keyof F]?: ReturnType<F[Name]['parse']> };

/** A flag without a value. */
export const isGiven = (): true => true;
export const text = (given: string): string => given;

export function seconds(given: string, name: string): number {
  const value = Number(given);
  if (given.trim() !== '' && Number.isFinite(value) && value > 0)
    return Math.max(1, Math.round(value * 1000));
  throw new UsageError(`--${name} must be a number of seconds above 0, got ${JSON.stringify(given)}`);
}

export function whole(given: string, name: string): number {
  if (/^\d+$/.test(given)) return Number(given);
  throw new UsageError(`--${name} must be a whole number, got ${JSON.stringify(given)}`);
}

export function oneOf<T extends string>(...choices: readonly T[]): (given: string, name: string) => T {
  return (given, name) => {
    const found = choices.find((choice) => choice === given);
    if (found !== undefined) return found;
    throw new UsageError(`--${name} must be ${choices.join(' or ')}, got ${JSON.stringify(given)}`);
  };
}

/** Flags of the command line, or else of the environment. @throws UsageError */
export function readFlags<F extends Flags>(
  flags: F,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): FlagValues<F> {
  const given = parse(flags, args);
  const values = Object.entries(flags).flatMap(([name, flag]) => {
    const fromEnv = flag.env === undefined ? undefined : env[flag.env];
    const value = given[name] ?? (fromEnv === '' ? undefined : fromEnv);
    return value === undefined ? [] : [[name, flag.parse(String(value), name)]];
  });
  return Object.fromEntries(values) as FlagValues<F>;
}

function parse(flags: Flags, args: readonly string[]): Record<string, string | boolean | undefined> {
  const options = Object.fromEntries(
    Object.entries(flags).map(([name, flag]) => [
      name,
      { type: flag.value === undefined ? ('boolean' as const) : ('string' as const) },
    ]),
  );
  try {
    const config: ParseArgsConfig = { args: [...args], options, strict: true, allowPositionals: false };
    return parseArgs(config).values as Record<string, string | boolean | undefined>;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** A line for each flag. */
export function helpOf(flags: Flags): string {
  const heads = Object.entries(flags).map(
    ([name, { value }]) => `--${name}${value === undefined ? '' : ` ${value}`}`,
  );
  const width = Math.max(...heads.map((head) => head.length));
  return Object.values(flags)
    .map(({ help, env }, index) => {
      const from = env === undefined ? '' : ` [${env}]`;
      return `  ${(heads[index] ?? '').padEnd(width)}  ${help}${from}`;
    })
    .join('\n');
}
