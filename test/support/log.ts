import type { Logger } from '../../lib';

export interface LogLine {
  level: keyof Logger;
  message: string;
  fields: Record<string, unknown>;
}

/** A logger that keeps what it was told. */
export function recordingLogger(): Logger & { readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const at =
    (level: keyof Logger) =>
    (message: string, fields: object = {}) => {
      lines.push({ level, message, fields: { ...fields } });
    };
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}
