import type { ConfirmLane } from './confirm-lane';
import type { LaneOutcome } from './lane-outcome';
import type { Parcel } from './parcel';

/** Lanes that are kept open. Beyond that, idle ones are closed: a connection has 2047 channels at most. */
export const MAX_LANES = 64;

interface Entry {
  readonly opening: Promise<ConfirmLane>;
  lane: ConfirmLane | null;
}

/**
 * A lane for each exchange. The broker closes a channel because of one message that it refuses, most often for its
 * exchange: so messages of other exchanges are not on it.
 */
export class Lanes {
  readonly #open: () => Promise<ConfirmLane>;
  /** Last is the one that was used last. */
  readonly #entries = new Map<string, Entry>();

  constructor(open: () => Promise<ConfirmLane>) {
    this.#open = open;
  }

  /** @throws BrokerOutage if there is no lane */
  async publish(exchange: string, parcels: readonly Parcel[]): Promise<LaneOutcome[]> {
    for (;;) {
      const entry = this.#entries.get(exchange) ?? this.#add();
      this.#entries.delete(exchange);
      this.#entries.set(exchange, entry);
      try {
        const lane = await entry.opening;
        // Nothing is awaited between: a lane that is open here has the messages before somebody can close it.
        if (lane.isOpen) return await lane.publish(parcels);
      } catch (error) {
        this.#remove(exchange, entry);
        throw error;
      }
      this.#remove(exchange, entry);
    }
  }

  #add(): Entry {
    if (this.#entries.size >= MAX_LANES) this.#closeIdle();
    const entry: Entry = { opening: this.#open(), lane: null };
    entry.opening.then(
      (lane) => (entry.lane = lane),
      () => undefined,
    );
    return entry;
  }

  #remove(exchange: string, entry: Entry): void {
    if (this.#entries.get(exchange) === entry) this.#entries.delete(exchange);
  }

  #closeIdle(): void {
    for (const [exchange, { lane }] of this.#entries) {
      if (lane?.isIdle !== true) continue;
      this.#entries.delete(exchange);
      lane.retire();
      return;
    }
  }
}
