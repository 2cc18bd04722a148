import { encodeJson } from './json';

/**
 * Replaces what must not be seen in the arguments of a task. Gets a copy of its own, as plain JSON; what it returns
 * is shown in logs and to operators, and never sent.
 */
export type Redact = (task: { name: string; args: unknown[]; kwargs: Record<string, unknown> }) => {
  args: unknown;
  kwargs: unknown;
};

export interface RedactSettings {
  readonly redact?: Redact | undefined;
  /** Told when redaction failed; the arguments are then not shown at all. What it throws is ignored. */
  readonly onRedactError?: ((error: unknown) => void) | undefined;
}

export interface RedactedArguments {
  readonly redactedArgs: string | null;
  readonly redactedKwargs: string | null;
}

const FAILED = JSON.stringify('[redaction failed]');

/**
 * The arguments as they may be shown; null without a redact function. Fails closed: if redaction throws or returns
 * something that is not two JSON values, both are replaced by a fixed text and the task is stored all the same.
 */
export function redactArguments(
  task: { readonly taskName: string; readonly args: string; readonly kwargs: string },
  { redact, onRedactError }: RedactSettings,
): RedactedArguments {
  if (redact === undefined) return { redactedArgs: null, redactedKwargs: null };
  try {
    const { args, kwargs } = redact({
      name: task.taskName,
      args: JSON.parse(task.args) as unknown[],
      kwargs: JSON.parse(task.kwargs) as Record<string, unknown>,
    });
    return {
      redactedArgs: encodeJson(args, 'redacted args'),
      redactedKwargs: encodeJson(kwargs, 'redacted kwargs'),
    };
  } catch (error) {
    report(error, onRedactError);
    return { redactedArgs: FAILED, redactedKwargs: FAILED };
  }
}

function report(error: unknown, onRedactError: RedactSettings['onRedactError']): void {
  try {
    onRedactError?.(error);
  } catch {
    // Telemetry must not break the transaction that stores the task.
  }
}
