import { randomUUID } from 'node:crypto';
import type { ClaimedRow, LowWaterMark } from '../store/relay/claim';
import { logEvent, type Logger } from '../telemetry/logger';
import { deliver, type Delivered } from './batch';
import type { Breaker } from './breaker';
import { Lease } from './lease';
import { added, NOTHING_DONE, type PassSummary, type Publish } from './outcome';
import type { RelayStore } from './relay-store';
import type { Report } from './report';
import type { Retries } from './retry-policy';
import { settle } from './settle';
import { settlementOf, withoutExhausted } from './settlement';

/** How long a drain goes on without a look at the whole queue: retries come due, and commits come late. */
const FULL_SCAN_MS = 1_000;

export interface PassSettings {
  readonly batchSize: number;
  /** How many batches may be between their claim and their settlement at a time. */
  readonly batchesInFlight: number;
  readonly leaseMs: number;
  readonly partitionCount: number;
}

export interface PassParts {
  readonly store: RelayStore;
  readonly publish: Publish;
  readonly breaker: Breaker;
  readonly retries: Retries;
  readonly report: Report;
  readonly logger: Logger;
  /** Whether an error tells of the broker, not of something else that was away. */
  readonly isBrokerOutage: (error: Error) => boolean;
  /** Which partitions may be worked on now. */
  readonly partitions: () => readonly number[];
  readonly isStopping: () => boolean;
  /** Nobody waits for what is still to be settled. */
  readonly abandoned: AbortSignal;
  /** Told of every batch. */
  readonly onProgress: () => void;
}

/** Claims, publishes and settles until there is nothing left to do. Batches overlap. */
export class Pass {
  readonly #settings: PassSettings;
  readonly #parts: PassParts;
  readonly #running = new Set<Promise<void>>();
  #summary = NOTHING_DONE;
  #mark: LowWaterMark | null = null;
  #scannedAt = -Infinity;
  #nudge: () => void = () => undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(settings: PassSettings, parts: PassParts) {
    this.#settings = settings;
    this.#parts = parts;
  }

  /** There is something new: worth a claim now, also while batches are under way. */
  nudge(): void {
    this.#scannedAt = -Infinity;
    this.#nudge();
  }

  /** Settles what it claims, whatever happens. @throws ERR_CELERY_OUTBOX_DATABASE if a claim failed */
  async run(): Promise<PassSummary> {
    try {
      while (this.#mayClaim()) {
        const nudged = new Promise<void>((resolve) => (this.#nudge = resolve));
        const isFull = this.#running.size >= this.#limit;
        const claimed = isFull ? 0 : await this.#claim();
        if (claimed > 0) continue;
        if (this.#running.size === 0) break;
        await Promise.race(isFull ? this.#running : [...this.#running, nudged]);
      }
    } finally {
      await Promise.all(this.#running);
    }
    if (this.#failure !== undefined) throw this.#failure.error;
    return this.#summary;
  }

  // While it is not known whether the broker is back, one batch at a time finds out.
  get #limit(): number {
    return this.#parts.breaker.isProbing ? 1 : this.#settings.batchesInFlight;
  }

  #mayClaim(): boolean {
    const { isStopping, breaker, partitions } = this.#parts;
    return !isStopping() && !breaker.isOpen && this.#failure === undefined && partitions().length > 0;
  }

  /** @returns how many rows were claimed */
  async #claim(): Promise<number> {
    const claimedAt = performance.now();
    if (claimedAt - this.#scannedAt > FULL_SCAN_MS) {
      this.#mark = null;
      this.#scannedAt = claimedAt;
    }
    const after = this.#mark;
    const count = await this.#claimAfter(after, claimedAt);
    if (count > 0 || after === null) return count;
    this.#mark = null;
    this.#scannedAt = performance.now();
    return this.#claimAfter(null, performance.now());
  }

  async #claimAfter(after: LowWaterMark | null, claimedAt: number): Promise<number> {
    const { store, partitions } = this.#parts;
    const { batchSize: limit, partitionCount } = this.#settings;
    const token = randomUUID();
    const owned = partitions();
    const isWhole = owned.length === partitionCount;
    const { rows, mark } = await store.claim({
      token,
      limit,
      after,
      partitions: isWhole ? null : { count: partitionCount, owned },
    });
    this.#mark = mark;
    if (rows.length > 0) this.#start(this.#work(token, rows, claimedAt));
    return rows.length;
  }

  #start(work: Promise<void>): void {
    const running = work
      .catch((error: unknown) => {
        this.#failure ??= { error };
      })
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  async #work(token: string, rows: readonly ClaimedRow[], claimedAt: number): Promise<void> {
    const { store, publish, retries, report, logger, onProgress, abandoned } = this.#parts;
    const { leaseMs } = this.#settings;
    let isTold = false;
    const onError = (error: unknown): void => {
      if (!isTold) logEvent(logger, 'error', 'celery_outbox_settle_failed', { error });
      isTold = true;
    };
    const lease = new Lease({ token, ids: rows.map(({ id }) => id), claimedAt }, { store, leaseMs, onError });
    try {
      const { alive, dead, held } = withoutExhausted(rows, retries);
      const { delivered, unstarted } = await deliver(alive, publish, lease, () => this.#mayGoOn());
      this.#judge(delivered);
      const settlement = settlementOf({ delivered, unstarted: [...held, ...unstarted], dead }, retries);
      const settled = await settle(token, settlement, {
        store,
        lease,
        onError,
        onAttempt: onProgress,
        abandoned,
      });
      const summary = { claimed: rows.length, ...settled.summary };
      this.#summary = added(this.#summary, summary);
      report.settled(settled);
      const { deadLettered: dead_lettered, ...counts } = summary;
      logEvent(logger, 'debug', 'celery_outbox_batch_processed', {
        ...counts,
        dead_lettered,
        duration_ms: Math.round(performance.now() - claimedAt),
      });
    } finally {
      await lease.end();
      onProgress();
    }
  }

  #mayGoOn(): boolean {
    return !this.#parts.isStopping() && !this.#parts.breaker.isOpen;
  }

  #judge(delivered: readonly Delivered[]): void {
    const { breaker, isBrokerOutage, logger } = this.#parts;
    const outages = delivered.flatMap(({ outcome }) =>
      outcome.status === 'outage' && isBrokerOutage(outcome.error) ? [outcome.error] : [],
    );
    const [error] = outages;
    if (delivered.some(({ outcome }) => outcome.status !== 'outage')) {
      if (breaker.success()) logEvent(logger, 'info', 'celery_outbox_breaker_closed');
    } else if (error !== undefined && breaker.outage()) {
      logEvent(logger, 'warn', 'celery_outbox_breaker_trip', {
        error,
        cooldown_ms: Math.round(breaker.remainingMs),
      });
    }
  }
}
