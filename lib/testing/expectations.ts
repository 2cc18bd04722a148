import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';
import { BrokerOutage, MessageFault } from '../broker/broker-error';
import type { PublishOutcome } from '../broker/port';
import { within } from '../deadline';
import { ERROR_CODES } from '../errors';

/** What a busy machine may add to any timeout. */
export const SLACK_MS = 2_000;
export const POLL_MS = 10;

/** What `act` gives. @throws if it takes longer than `ms` */
export async function inTime<T>(what: string, ms: number, act: () => Promise<T>): Promise<T> {
  return within(act(), ms, () => new assert.AssertionError({ message: `${what} took more than ${ms} ms` }));
}

/** One outcome for each message, with an error of the right type and a code. */
export function assertOutcomes(outcomes: readonly PublishOutcome[], count: number): void {
  assert.ok(Array.isArray(outcomes), 'publish() must resolve to an array');
  assert.equal(outcomes.length, count, 'publish() must give one outcome for each message');
  for (const outcome of outcomes as readonly (PublishOutcome | undefined)[]) {
    if (outcome?.status === 'published') continue;
    if (outcome?.status === 'fault') {
      assert.ok(outcome.error instanceof MessageFault, `Not a MessageFault: ${describe(outcome)}`);
    } else {
      assert.ok(outcome?.status === 'outage', `Not an outcome: ${inspect(outcome)}`);
      assert.ok(outcome.error instanceof BrokerOutage, `Not a BrokerOutage: ${describe(outcome)}`);
    }
    assertCoded(outcome.error);
  }
}

export function assertCoded(error: { readonly code: string }): void {
  assert.ok(Object.hasOwn(ERROR_CODES, error.code), `Not a code of this package: ${error.code}`);
}

/** Every outcome has this status. */
export function assertEach(status: PublishOutcome['status'], outcomes: readonly PublishOutcome[]): void {
  const others = outcomes.filter((outcome) => outcome.status !== status).map(describe);
  assert.ok(
    others.length === 0,
    `${others.length} of ${outcomes.length} are not ${status}: ${String(others[0])}`,
  );
}

/** Waits until `read` gives the expected value. @throws with what it gave last */
export async function becomes<T>(what: string, expected: T, read: () => T | Promise<T>): Promise<void> {
  const deadline = performance.now() + SLACK_MS;
  for (;;) {
    const value = await read();
    if (value === expected) return;
    assert.ok(performance.now() < deadline, `${what}: ${String(value)} instead of ${String(expected)}`);
    await delay(POLL_MS);
  }
}

export function describe(outcome: PublishOutcome): string {
  return outcome.status === 'published' ? outcome.status : `${outcome.status}, ${String(outcome.error)}`;
}
