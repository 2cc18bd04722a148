import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import type { PublishOutcome } from '../broker/port';
import type { CeleryMessage } from '../message/celery-message';
import { inTime } from './expectations';
import { createMessages, idOf } from './sample-message';
import type { WatchedBroker } from './watched-broker';

type Status = PublishOutcome['status'];

const CALLS_AT_ONCE = 4;
const MESSAGES = 25;
const PAUSE_MS = 5;

interface Call {
  readonly messages: readonly CeleryMessage[];
  readonly outcomes: readonly PublishOutcome[];
}

/** Publishes all the time, several calls at once, while something happens to the server. */
export class Traffic {
  readonly #patienceMs: number;
  readonly #calls: Call[] = [];
  readonly #watchers = new Set<(status: Status) => void>();
  readonly #running: Promise<unknown>;
  #isEnding = false;

  private constructor(broker: WatchedBroker, queue: string, patienceMs: number) {
    this.#patienceMs = patienceMs;
    this.#running = Promise.all(Array.from({ length: CALLS_AT_ONCE }, () => this.#run(broker, queue)));
    // Looked at by those who wait, and at the end.
    this.#running.catch(() => undefined);
  }

  /** Publishes until `act` has ended. */
  static async during(
    [broker, queue, patienceMs]: [WatchedBroker, string, number],
    act: (traffic: Traffic) => Promise<void>,
  ): Promise<Traffic> {
    const traffic = new Traffic(broker, queue, patienceMs);
    try {
      await act(traffic);
    } finally {
      traffic.#isEnding = true;
    }
    await traffic.#running;
    return traffic;
  }

  /** Waits for an outcome of this status that comes from now on. */
  async sees(status: Status): Promise<void> {
    let watcher: ((seen: Status) => void) | undefined;
    const seen = new Promise<void>((resolve) => {
      watcher = (each) => {
        if (each === status) resolve();
      };
      this.#watchers.add(watcher);
    });
    try {
      await inTime(`an outcome ${status}`, this.#patienceMs, () => Promise.race([seen, this.#running]));
    } finally {
      if (watcher !== undefined) this.#watchers.delete(watcher);
    }
  }

  /** What was published is among the ids that were in the queue; no message was blamed; each call kept its order. */
  assertTrue(taken: readonly string[]): void {
    const places = new Map([...new Set(taken)].map((id, place) => [id, place]));
    for (const { messages, outcomes } of this.#calls) {
      let before = -1;
      for (const [index, message] of messages.entries()) {
        const place = places.get(idOf(message));
        const status = outcomes[index]?.status;
        assert.notEqual(status, 'fault', 'no message is to blame for an outage');
        assert.ok(
          status !== 'published' || place !== undefined,
          'reported as published, and not in the queue',
        );
        if (place === undefined) continue;
        assert.ok(place > before, 'a message has overtaken one that was given before it');
        before = place;
      }
    }
  }

  async #run(broker: WatchedBroker, queue: string): Promise<void> {
    while (!this.#isEnding) {
      const messages = createMessages(MESSAGES, queue);
      const outcomes = await broker.publish(messages);
      this.#calls.push({ messages, outcomes });
      for (const { status } of outcomes) for (const watcher of this.#watchers) watcher(status);
      // An outage is told at once while the broker waits for its next attempt.
      await delay(PAUSE_MS);
    }
  }
}
