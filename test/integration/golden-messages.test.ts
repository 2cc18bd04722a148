import { expect } from 'chai';
import { useFakeTimers } from 'sinon';
import { Publisher } from '../../lib/broker/publisher';
import { type CeleryOptions, parseCeleryOptions } from '../../lib/celery-options';
import type { ErrorCode } from '../../lib/errors';
import { PROTOCOL_HEADERS } from '../../lib/message/protocol-headers';
import { misreadFields, publishedHeaders } from '../support/amqp-frames';
import type { CaptureBench } from '../support/capture-bench';
import {
  type CapturedMessage,
  compareWithGolden,
  type Golden,
  goldenNames,
  readGolden,
} from '../support/golden';
import { storeGolden, toCeleryOptions } from '../support/golden-call';
import { recordingLogger } from '../support/log';
import { createRabbitmqBench, type RabbitmqBench } from '../support/rabbitmq-bench';
import { type BackendBench, createBackendBench } from '../support/backend-bench';
import { createRedisBench, type RedisBench } from '../support/redis-bench';
import { refusal } from '../support/refusal';
import { service } from '../support/services';

/** Calls that Celery refuses, or sends as what is no JSON. */
const REFUSED: Readonly<Record<string, ErrorCode>> = {
  'bytes-arg': 'ERR_CELERY_OUTBOX_UNENCODABLE',
  'float-nan-inf': 'ERR_CELERY_OUTBOX_UNENCODABLE',
};
/** In Redis, Python drops it without a word. */
const DROPPED = 'exchange-topic';

const CUSTOM_HEADERS = ['chain-apply-options', 'headers-custom', 'headers-trace'];

/** Makes the call of a capture and publishes it, with the clock standing still at its time. */
async function publish(golden: Golden, celery: CeleryOptions): Promise<void> {
  const logger = recordingLogger();
  const publisher = new Publisher(parseCeleryOptions({ ...celery, ...toCeleryOptions(golden) }), logger);
  const tasks = storeGolden(golden);
  const clock = useFakeTimers({ now: new Date(golden.now), toFake: ['Date'] });
  try {
    const outcomes = await publisher.publish(tasks);
    expect(outcomes).to.deep.equal(tasks.map(() => ({ status: 'published' })));
  } finally {
    clock.restore();
    await publisher.close();
  }
  expect(logger.lines).to.deep.equal([]);
}

/** The sizes of chords: keys and values as captured, but with the group ids that were generated here. */
async function expectWrites(
  golden: Golden,
  messages: readonly CapturedMessage[],
  backend: BackendBench,
): Promise<void> {
  const groups = new Map(
    golden.messages.map(({ headers }, index) => [headers['group'], messages[index]?.headers['group']]),
  );
  const expected = Object.entries(golden.backend_writes).map(([key, { value }]) => {
    const [id = ''] = /(?<=^celery-taskset-meta-).*(?=\.s$)/.exec(key) ?? [];
    return [key.replace(id, (groups.get(id) ?? id) as string), value];
  });
  const written = await backend.take();
  expect(Object.entries(written).map(([key, { value }]) => [key, value])).to.have.deep.members(expected);
  for (const { ttl } of Object.values(written)) expect(ttl).to.be.within(86_390, 86_400);
}

describe('messages are those of Celery 5.2.6', () => {
  let backend: BackendBench;
  before(async () => {
    backend = createBackendBench((await service('redis')).url);
  });
  after(() => backend.close());

  async function publishTo(
    bench: CaptureBench,
    golden: Golden,
    celery: Partial<CeleryOptions> = { nestHeaders: false },
  ): Promise<CapturedMessage[]> {
    await bench.prepare(golden);
    await backend.take();
    await publish(golden, { broker: bench.url, backend: backend.url, ...celery });
    return bench.take(golden);
  }

  /** Custom headers once more, under `headers`: that, and nothing else, is what we add by default. */
  async function expectNested(bench: CaptureBench, golden: Golden): Promise<void> {
    const messages = await publishTo(bench, golden, {});
    const differences = await compareWithGolden(golden, messages);
    const [{ headers }] = golden.messages as [CapturedMessage];
    const custom = Object.entries(headers).filter(([name]) => !PROTOCOL_HEADERS.has(name));
    expect(custom).not.to.be.empty;
    expect(differences).to.deep.equal([
      {
        path: '$.messages[0].headers.headers',
        golden: undefined,
        actual: Object.fromEntries(custom),
        why: 'unexpected header',
      },
    ]);
  }

  describe('in RabbitMQ', () => {
    const compared = new Set<string>();
    let bench: RabbitmqBench;
    before(async () => {
      bench = await createRabbitmqBench((await service('rabbitmq')).url);
    });
    after(() => bench.close());

    for (const name of goldenNames('rabbitmq').filter((each) => !(each in REFUSED))) {
      it(name, async () => {
        const golden = readGolden('rabbitmq', name);
        const messages = await publishTo(bench, golden);
        expect(await compareWithGolden(golden, messages)).to.deep.equal([]);
        expect(messages.map(({ routing }) => routing.queue)).to.deep.equal(
          golden.messages.map(({ routing }) => routing.queue),
        );
        await expectWrites(golden, messages, backend);
        const published = bench.sent().flatMap(publishedHeaders);
        expect(published).to.have.length(storeGolden(golden).length);
        expect(published.flatMap(misreadFields)).to.deep.equal([]);
        compared.add(name);
      });
    }

    for (const name of CUSTOM_HEADERS) {
      it(`${name}, with the custom headers nested as well by default`, () =>
        expectNested(bench, readGolden('rabbitmq', name)));
    }

    it('all of them', () => {
      expect([...compared, ...Object.keys(REFUSED)]).to.have.members(goldenNames('rabbitmq'));
      expect(compared).to.have.length.above(70);
    });
  });

  describe('in Redis', () => {
    const compared = new Set<string>();
    let bench: RedisBench;
    before(async () => {
      bench = createRedisBench((await service('redis')).url);
    });
    after(() => bench.close());

    for (const name of goldenNames('redis').filter((each) => !(each in REFUSED || each === DROPPED))) {
      it(name, async () => {
        const golden = readGolden('redis', name);
        const messages = await publishTo(bench, golden);
        expect(await compareWithGolden(golden, messages)).to.deep.equal([]);
        const tags = messages.map(({ properties }) => properties['delivery_tag']);
        expect(new Set(tags)).to.have.length(messages.length);
        await expectWrites(golden, messages, backend);
        expect(golden.bindings).to.deep.include(await bench.bindings());
        compared.add(name);
      });
    }

    it(`${DROPPED}, which goes to the queues that RabbitMQ would find`, async () => {
      const captured = readGolden('redis', DROPPED);
      expect(captured.messages).to.be.empty;
      const golden = { ...readGolden('rabbitmq', DROPPED), bindings: captured.bindings! };
      golden.messages = golden.messages.map(inRedis);
      expect(await compareWithGolden(golden, await publishTo(bench, golden))).to.deep.equal([]);
      compared.add(DROPPED);
    });

    for (const name of CUSTOM_HEADERS) {
      it(`${name}, with the custom headers nested as well by default`, () =>
        expectNested(bench, readGolden('redis', name)));
    }

    it('all of them', () => {
      expect([...compared, ...Object.keys(REFUSED)]).to.have.members(goldenNames('redis'));
      expect(compared).to.have.length.above(70);
    });
  });

  for (const [name, code] of Object.entries(REFUSED)) {
    it(`but ${name} is refused`, () => {
      for (const broker of ['rabbitmq', 'redis'] as const) {
        refusal(code, () => storeGolden(readGolden(broker, name)));
      }
    });
  }

  it('with custom headers in three of them', () => {
    const hasCustom = ({ headers }: CapturedMessage): boolean =>
      Object.keys(headers).some((header) => !PROTOCOL_HEADERS.has(header));
    for (const broker of ['rabbitmq', 'redis'] as const) {
      const names = goldenNames(broker).filter((name) => readGolden(broker, name).messages.some(hasCustom));
      expect(names).to.deep.equal(CUSTOM_HEADERS);
    }
  });
});

/** A capture from RabbitMQ as kombu lays it out in Redis. */
function inRedis({ routing, properties, ...message }: CapturedMessage): CapturedMessage {
  const { queue, exchange, routing_key } = routing;
  const { content_type: _type, content_encoding: _encoding, ...others } = properties;
  return {
    ...message,
    'content-type': 'application/json',
    'content-encoding': 'utf-8',
    routing: { list_key: queue!, exchange, routing_key },
    properties: {
      ...others,
      delivery_info: { exchange, routing_key },
      body_encoding: 'base64',
      delivery_tag: 'any',
    },
  };
}
