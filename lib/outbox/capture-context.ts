import { currentLogContext } from '../context/log-context';
import { currentTraceHeaders } from '../context/trace-headers';
import { assertSync } from '../assert-options';
import { encodeJson } from '../message/json';
import type { OutboxSettings } from '../options';
import { logEvent } from '../telemetry/logger';

/** Trace and log context of a call, as JSON text. */
export interface CapturedContext {
  readonly traceHeaders: string | null;
  readonly logContext: string | null;
}

/**
 * Takes the context of the caller. To be called synchronously from the call: inside some callbacks of knex and
 * pg it is lost. Telemetry must never break a business transaction, so this never throws.
 */
export function captureContext(settings: OutboxSettings): CapturedContext {
  return { traceHeaders: captureTrace(settings), logContext: captureLog(settings) };
}

function captureTrace({ trace, logger }: OutboxSettings): string | null {
  if (trace === false) return null;
  const report = (error: unknown): void => {
    logEvent(logger, 'warn', 'celery_outbox_context_failed', { error });
  };
  try {
    const headers = trace === undefined ? currentTraceHeaders(report) : assertSync(trace(), 'trace', report);
    return Object.keys(headers).length === 0 ? null : encodeJson(headers, 'trace');
  } catch (error) {
    report(error);
    return null;
  }
}

function captureLog({ logContextKeys, logger }: OutboxSettings): string | null {
  const members: string[] = [];
  for (const [key, value] of Object.entries(currentLogContext())) {
    if (value === undefined || (logContextKeys !== undefined && !logContextKeys.has(key))) continue;
    try {
      members.push(`${JSON.stringify(key)}:${encodeJson(value, key)}`);
    } catch (error) {
      logEvent(logger, 'warn', 'celery_outbox_context_failed', { key, error });
    }
  }
  return members.length === 0 ? null : `{${members.join(',')}}`;
}
