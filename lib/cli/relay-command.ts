import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import createKnex, { type Knex } from 'knex';
import { CeleryOutboxError } from '../errors';
import { createRelay } from '../relay/create-relay';
import type { Relay } from '../relay/relay';
import type { RelayOptions } from '../relay/relay-options';
import { createDefaultLogger } from '../telemetry/logger';
import { helpOf, readFlags } from './flags';
import { RELAY_FLAGS, type RelayFlags } from './relay-flags';
import { UsageError } from './usage-error';

const DEFAULT_BATCHES_IN_FLIGHT = 3;
const DEFAULT_SHUTDOWN_MS = 30_000;
/** For what remains when the drain is over: closing connections. */
const CLOSE_GRACE_MS = 5_000;

/** `celery-outbox relay`: runs until SIGTERM or SIGINT. @returns the exit code */
export async function relayCommand(args: readonly string[]): Promise<number> {
  const flags = readFlags(RELAY_FLAGS, args, process.env);
  if (flags.help === true) {
    process.stdout.write(`Usage: celery-outbox relay [flags]\n\n${helpOf(RELAY_FLAGS)}\n`);
    return 0;
  }
  const options = await optionsOf(flags);
  try {
    const relay = createRelay(options);
    return flags.once === true ? await runOnce(relay) : await run(relay, options.shutdownTimeoutMs);
  } finally {
    await options.knex.destroy();
  }
}

async function runOnce(relay: Relay): Promise<number> {
  try {
    process.stdout.write(`${JSON.stringify(await relay.runOnce())}\n`);
    return 0;
  } finally {
    await relay.stop();
  }
}

async function run(relay: Relay, shutdownTimeoutMs = DEFAULT_SHUTDOWN_MS): Promise<number> {
  const stopping = onSignal(() => {
    // Whatever still hangs by then must not keep an orchestrator waiting.
    setTimeout(() => process.exit(1), shutdownTimeoutMs + CLOSE_GRACE_MS).unref();
  });
  try {
    await relay.start();
    await stopping;
    return 0;
  } finally {
    await relay.stop();
  }
}

/** Resolves with the first signal; the second ends the process at once. */
function onSignal(first: () => void): Promise<void> {
  return new Promise((resolve_) => {
    let isFirst = true;
    const listener = (): void => {
      if (!isFirst) process.exit(1);
      isFirst = false;
      first();
      resolve_();
    };
    process.on('SIGTERM', listener);
    process.on('SIGINT', listener);
  });
}

async function optionsOf(flags: RelayFlags): Promise<RelayOptions> {
  const config = flags.config === undefined ? {} : await load(flags.config);
  const broker = flags.broker ?? config.celery?.broker;
  if (broker === undefined) throw new UsageError('--broker or CELERY_BROKER_URL must be given');
  const celery = {
    ...config.celery,
    broker,
    ...defined({ backend: flags.backend, queue: flags.queue, sendTimeoutMs: flags['send-timeout'] }),
  };
  return {
    ...config,
    knex:
      config.knex ??
      openDatabase(flags['database-url'], flags['batches-in-flight'] ?? config.batchesInFlight),
    celery,
    logger: config.logger ?? createDefaultLogger(flags['log-level']),
    ...defined({
      redis: flags.redis,
      name: flags.name,
      tableName: flags['table-name'],
      schema: flags.schema,
      batchSize: flags['batch-size'],
      batchesInFlight: flags['batches-in-flight'],
      idleMs: flags['idle-time'],
      backoffMs: flags['backoff-time'],
      maxBackoffMs: flags['max-backoff'],
      maxRetries: flags['max-retries'],
      leaseMs: flags['stale-timeout-seconds'],
      shutdownTimeoutMs: flags['shutdown-timeout'],
      outageCooldownMs: flags['broker-outage-cooldown'],
      onDeadLetter: flags['on-dead-letter'],
      cleanUpAfter: flags['clean-up-after'],
      partitions: flags.partitions,
      lockTtlMs: flags['lock-ttl'],
      notify: flags['no-notify'] === true ? false : undefined,
      livenessFile: flags['liveness-file'],
    }),
  };
}

function openDatabase(url: string | undefined, batchesInFlight = DEFAULT_BATCHES_IN_FLIGHT): Knex {
  if (url === undefined) throw new UsageError('--database-url or DATABASE_URL must be given');
  // A claim, and for each batch a settlement with its renewal.
  const max = 2 * batchesInFlight + 2;
  return createKnex({ client: 'pg', connection: url, pool: { min: 0, max } });
}

async function load(file: string): Promise<Partial<RelayOptions>> {
  try {
    const module_ = (await import(pathToFileURL(resolve(file)).href)) as { default?: unknown };
    const options = module_.default;
    if (typeof options === 'object' && options !== null) return options;
  } catch (error) {
    if (error instanceof CeleryOutboxError) throw error;
    throw new UsageError(`--config ${file} cannot be loaded: ${String(error)}`);
  }
  throw new UsageError(`--config ${file} must export an object of options of createRelay as its default`);
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

function defined<T extends object>(values: T): Defined<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Defined<T>;
}
