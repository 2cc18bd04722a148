import { randomUUID } from 'node:crypto';
import { type ClaimedRow, type Position, START } from '../store/relay/claim';
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
  /** Only rows that have been due for so long. */
  readonly minAgeMs: number;
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
  #position = START;
  /** Whether everything before the position was looked at, and nothing found. */
  #isClean = false;
  #scannedAt = -Infinity;
  #nudge: () => void = () => undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(settings: PassSettings, parts: PassParts) {
    this.#settings = settings;
    this.#parts = parts;
  }

  /** There may be something new: worth a claim now, also while batches are under way. */
  nudge(): void {
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

  /** @returns how many rows were claimed: none, if nothing is eligible anywhere */
  async #claim(): Promise<number> {
    if (performance.now() - this.#scannedAt > FULL_SCAN_MS)
      this.#position = { ...this.#position, mark: null };
    while (this.#mayClaim()) {
      const after = this.#position;
      if (after.mark === null) this.#scannedAt = performance.now();
      this.#isClean ||= after.mark === null && after.key === '';
      const { count, isEnd } = await this.#claimAfter(after);
      if (count > 0) this.#isClean = false;
      if (count > 0 || (isEnd && this.#isClean)) return count;
      if (isEnd) this.#position = START;
    }
    return 0;
  }

  async #claimAfter(after: Position): Promise<{ readonly count: number; readonly isEnd: boolean }> {
    const { store, partitions } = this.#parts;
    const { batchSize: limit, partitionCount, minAgeMs } = this.#settings;
    const claimedAt = performance.now();
    const token = randomUUID();
    const owned = partitions();
    const isWhole = owned.length === partitionCount;
    const { rows, position, isEnd } = await store.claim({
      token,
      limit,
      after,
      minAgeMs,
      partitions: isWhole ? null : { count: partitionCount, owned },
    });
    this.#position = position;
    this.#parts.onProgress();
    if (rows.length > 0) this.#start(this.#workOn(token, rows, claimedAt));
    return { count: rows.length, isEnd };
  }

  #start(work: Promise<void>): void {
    const running = work
      .catch((error: unknown) => {
        this.#failure ??= { error };
      })
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Rows of ordering keys take their turns; the others need not wait for that to be settled. */
  async #workOn(token: string, rows: readonly ClaimedRow[], claimedAt: number): Promise<void> {
    const kinds = [
      rows.filter((row) => row.orderingKey === null),
      rows.filter((row) => row.orderingKey !== null),
    ];
    const works = kinds.filter((kind) => kind.length > 0).map((kind) => this.#work(token, kind, claimedAt));
    await Promise.all(works);
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
    this.#parts.onProgress();
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
