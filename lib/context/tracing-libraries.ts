type OpenTelemetry = typeof import('@opentelemetry/api');
type Sentry = typeof import('@sentry/node');

const OPEN_TELEMETRY = Symbol.for('opentelemetry.js.api.1');

// Both libraries announce themselves on globalThis, across copies and module systems. Asking there first
// means that neither is ever loaded by us into a process that does not use it.

/** OpenTelemetry's API, if something is registered with it. @throws once, if it cannot be loaded from here. */
export function openTelemetry(): OpenTelemetry | undefined {
  return OPEN_TELEMETRY in globalThis ? (loadOnce('@opentelemetry/api') as OpenTelemetry) : undefined;
}

/** True if something records the spans of OpenTelemetry: it may be there for metrics or logs alone. */
export function hasTracerProvider(): boolean {
  const registered = (globalThis as { [OPEN_TELEMETRY]?: { trace?: unknown } })[OPEN_TELEMETRY];
  return registered?.trace !== undefined;
}

/** Sentry, if it is initialised. @throws once, if it cannot be loaded from here. */
export function initialisedSentry(): Sentry | undefined {
  if (!('__SENTRY__' in globalThis)) return undefined;
  const sentry = loadOnce('@sentry/node') as Sentry | undefined;
  return sentry?.isInitialized() === true ? sentry : undefined;
}

const loaded = new Map<string, unknown>();

// A package that cannot be loaded from here (another copy runs) is reported once, not with every task.
function loadOnce(name: string): unknown {
  if (loaded.has(name)) return loaded.get(name);
  loaded.set(name, undefined);
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- an optional peer, loaded only where it runs
  loaded.set(name, require(name));
  return loaded.get(name);
}
