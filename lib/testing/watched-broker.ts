import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { BrokerOutage } from '../broker/broker-error';
import type { Broker, PublishOutcome } from '../broker/port';
import type { CeleryMessage } from '../message/celery-message';
import { assertCoded, assertEach, assertOutcomes, describe, inTime, POLL_MS, SLACK_MS } from './expectations';
import { createMessage } from './sample-message';

/** A broker whose every call is held to what the port says of all calls. */
export class WatchedBroker {
  readonly #broker: Broker;
  readonly #patienceMs: number;

  constructor(broker: Broker, patienceMs: number) {
    this.#broker = broker;
    this.#patienceMs = patienceMs;
  }

  async publish(messages: readonly CeleryMessage[], withinMs = this.#patienceMs): Promise<PublishOutcome[]> {
    const outcomes = await inTime('publish()', withinMs, async () => {
      try {
        return await this.#broker.publish(messages);
      } catch (error) {
        return assert.fail(`publish() must never reject, but did: ${String(error)}`);
      }
    });
    assertOutcomes(outcomes, messages.length);
    return outcomes;
  }

  /** All of them have to be published. */
  async publishAll(messages: readonly CeleryMessage[]): Promise<void> {
    assertEach('published', await this.publish(messages));
  }

  /** Publishes a new message again and again while there is an outage. @returns the one that was published */
  async publishWhenBack(queue: string): Promise<CeleryMessage> {
    const deadline = performance.now() + this.#patienceMs;
    for (;;) {
      const message = createMessage(queue);
      const [outcome] = (await this.publish([message])) as [PublishOutcome];
      if (outcome.status === 'published') return message;
      assert.equal(outcome.status, 'outage', `No message is to blame: ${describe(outcome)}`);
      const isLate = performance.now() > deadline;
      assert.ok(!isLate, `Still an outage after ${this.#patienceMs} ms: ${describe(outcome)}`);
      await delay(POLL_MS);
    }
  }

  async connect(): Promise<void> {
    await inTime('connect()', this.#patienceMs, () => this.#broker.connect());
  }

  /** It has to reject, with a BrokerOutage. */
  async failToConnect(withinMs: number): Promise<void> {
    const refusal = await inTime('connect()', withinMs, () =>
      this.#broker.connect().then(
        () => assert.fail('connect() resolved'),
        (error: unknown) => error,
      ),
    );
    assert.ok(
      refusal instanceof BrokerOutage,
      `connect() must reject with a BrokerOutage: ${String(refusal)}`,
    );
    assertCoded(refusal);
  }

  async close(withinMs = SLACK_MS): Promise<void> {
    await inTime('close()', withinMs, () => this.#broker.close());
  }
}
