import { expect } from 'chai';
import createKnex, { type Knex } from 'knex';
import { createRelay, type RelayOptions } from '../../../lib/relay';
import { parseRelayOptions } from '../../../lib/relay/relay-options';
import { refusal } from '../../support/refusal';

describe('options of createRelay', () => {
  let knex: Knex;
  let required: RelayOptions;
  before(() => {
    knex = createKnex({ client: 'pg' });
    required = { knex, celery: { broker: 'amqp://127.0.0.1' } };
  });
  after(() => knex.destroy());

  it('have the defaults of the design, frozen', () => {
    const settings = parseRelayOptions(required);
    expect(settings).to.include({
      batchSize: 1_000,
      leaseMs: 60_000,
      backoffMs: 120_000,
      maxBackoffMs: 3_600_000,
      maxRetries: 5,
      shutdownTimeoutMs: 30_000,
      outageCooldownMs: 30_000,
      idleMs: 1_000,
      onDeadLetter: 'skip',
      cleanUpAfter: 'immediately',
      partitions: 1,
      notify: true,
    });
    expect(settings.celery.sendTimeoutMs).to.equal(10_000);
    expect(settings).to.be.frozen;
  });

  it('are refused with the option, what it must be and what came', () => {
    for (const [options, words] of [
      [{ knex: undefined }, /createRelay: knex must be a Knex instance/],
      [{ celery: undefined }, /createRelay: celery must be/],
      [{ redis: 'http://x' }, /createRelay: redis must be a URL that begins with redis:/],
      [{ redis: { on: () => undefined } }, /redis must be .* not a client/],
      [{ name: 'a b' }, /name must be a name of letters/],
      [{ batchSize: 0 }, /batchSize must be a whole number from 1 to 10000, got 0/],
      [{ batchesInFlight: 1.5 }, /batchesInFlight/],
      [{ idleMs: -1 }, /idleMs must be a whole number of milliseconds/],
      [{ maxRetries: 40_000 }, /maxRetries must be a whole number from 0 to 32766/],
      [{ retryPolicy: 5 }, /retryPolicy must be a function/],
      [{ onDeadLetter: 'stop' }, /onDeadLetter must be 'skip' or 'block', got "stop"/],
      [{ cleanUpAfter: 0 }, /cleanUpAfter must be 'immediately', 'never' or/],
      [{ partitions: 65 }, /partitions must be a whole number from 1 to 64/],
      [{ lockTtlMs: 10 }, /lockTtlMs must be a whole number of milliseconds from 100/],
      [{ notify: 'yes' }, /notify must be a boolean/],
      [{ livenessFile: '' }, /livenessFile/],
      [{ tableName: 'a; DROP' }, /tableName/],
    ] as const) {
      const given = { ...required, ...options } as unknown as RelayOptions;
      expect(refusal('ERR_CELERY_OUTBOX_INVALID_OPTION', () => createRelay(given)).message).to.match(words);
    }
    const unknown = { ...required, batch: 1 } as unknown as RelayOptions;
    expect(refusal('ERR_CELERY_OUTBOX_UNKNOWN_OPTION', () => createRelay(unknown)).message).to.match(
      /"batch"/,
    );
  });

  it('allow no retry at all, and a batch of one', () => {
    expect(parseRelayOptions({ ...required, maxRetries: 0, batchSize: 1 })).to.include({ maxRetries: 0 });
  });
});
