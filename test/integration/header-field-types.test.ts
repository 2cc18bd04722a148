import { randomUUID } from 'node:crypto';
import { connect } from 'amqplib';
import { expect } from 'chai';
import { Publisher } from '../../lib/broker/publisher';
import { parseCeleryOptions } from '../../lib/celery-options';
import { encodeTask } from '../../lib/message/encode-task';
import type { TaskOptions } from '../../lib/message/task-options';
import { type Field, misreadFields, publishedHeaders } from '../support/amqp-frames';
import { recordingLogger } from '../support/log';
import { createRecordingProxy, type RecordingProxy } from '../support/recording-proxy';
import { service } from '../support/services';

const INT32 = [0, 1, 127, 128, 255, 300, 32_767, 32_768, -1, -128, -129, -32_768, -32_769, 2 ** 31 - 1];
const INT64 = [2 ** 31, 2 ** 40, Number.MAX_SAFE_INTEGER];
const FLOATS = [0.5, -1.25, 1e300, -0];
const numbers = [...INT32, -(2 ** 31), ...INT64, ...FLOATS, 2n ** 63n - 1n];

/** Every number by itself, and deep within arrays and objects. */
const headers = {
  ...Object.fromEntries(numbers.map((number, index) => [`n${String(index)}`, number])),
  list: numbers,
  deep: { list: [numbers, { numbers }], object: Object.fromEntries(numbers.map((n, i) => [String(i), n])) },
};

describe('numbers in headers reach Python workers as they are', () => {
  let url: string;
  let queue: string;
  let proxy: RecordingProxy;
  before(async () => {
    ({ url } = await service('rabbitmq'));
    queue = randomUUID();
    proxy = await createRecordingProxy(url);
  });
  after(async () => {
    await proxy.close();
    const connection = await connect(url);
    const channel = await connection.createChannel();
    await channel.deleteQueue(queue);
    await connection.close();
  });

  async function publish(options: TaskOptions): Promise<Field[]> {
    const settings = { maxPayloadBytes: 1e6, now: new Date() };
    const task = encodeTask({ name: 'proj.tasks.add', options: { queue, ...options } }, settings);
    const publisher = new Publisher(parseCeleryOptions({ broker: proxy.url }), recordingLogger());
    const outcomes = await publisher.publish([
      { ...task, traceHeaders: '{"sampled":300}', logContext: '{"n":300}' },
    ]);
    await publisher.close();
    expect(outcomes).to.deep.equal([{ status: 'published' }]);
    const [fields = [], ...others] = proxy.take().flatMap(publishedHeaders);
    expect(others).to.be.empty;
    return fields;
  }

  it('with no type that py-amqp misreads', async () => {
    const fields = await publish({ headers, timeLimit: 300, softTimeLimit: 240, retries: 200 });
    expect(misreadFields(fields)).to.deep.equal([]);
    const byPath = new Map(fields.map((field) => [field.path, field]));
    for (const [path, number] of [
      ['retries', 200],
      ['timelimit[0]', 300],
      ['timelimit[1]', 240],
      ['sampled', 300],
      ['log_context.n', 300],
      ['headers.log_context.n', 300],
    ] as const) {
      expect(byPath.get(path), path).to.deep.equal({ path, tag: 'I', number });
    }
    numbers.forEach((number, index) => {
      const at = String(index);
      const places = [
        `n${at}`,
        `list[${at}]`,
        `deep.list[0][${at}]`,
        `deep.list[1].numbers[${at}]`,
        `deep.object.${at}`,
      ];
      for (const path of places.flatMap((place) => [place, `headers.${place}`])) {
        expect(byPath.get(path), path).to.deep.equal({ path, ...written(number) });
      }
    });
  });

  it("with an object of a user's that looks like one of amqplib's tags", async () => {
    const fields = await publish({ headers: { tagged: { '!': 'short', value: 300 } } });
    expect(fields.filter(({ path }) => path.startsWith('tagged'))).to.deep.equal([
      { path: 'tagged', tag: 'F', number: null },
      { path: 'tagged.!', tag: 'S', number: null },
      { path: 'tagged.value', tag: 'I', number: 300 },
    ]);
  });

  it('unlike what amqplib would write by itself', async () => {
    const connection = await connect(proxy.url);
    const channel = await connection.createConfirmChannel();
    channel.publish('', queue, Buffer.from(''), { headers: { short: 300, list: [{ byte: -1 }], text: 's' } });
    await channel.waitForConfirms();
    await connection.close();
    const misread = misreadFields(proxy.take().flatMap(publishedHeaders).flat());
    expect(misread).to.deep.equal([
      { path: 'short', tag: 's', number: 300 },
      { path: 'list[0].byte', tag: 'b', number: -1 },
    ]);
  });
});

function written(number: number | bigint): Pick<Field, 'tag' | 'number'> {
  if (FLOATS.includes(number as number) && !Object.is(number, 0)) return { tag: 'd', number };
  if (typeof number === 'bigint' || INT64.includes(number)) return { tag: 'l', number: BigInt(number) };
  return { tag: 'I', number };
}
