import { expect } from 'chai';
import { startCeleryNodeWorker, type CeleryNodeWorker } from '../support/celery-node-worker';
import { useOutbox } from '../support/outbox';
import { BROKERS, freshNames, urlsFor } from './interop';
import { Sender } from './sender';

const TIMEOUT_MS = 15_000;
const INTERVAL_MS = 5;

for (const broker of BROKERS) {
  describe(`a worker of celery-node on ${broker}`, () => {
    const { queue } = freshNames();
    let urls: Awaited<ReturnType<typeof urlsFor>>;
    let worker: CeleryNodeWorker | undefined;
    let sender: Sender;

    before(async function () {
      this.timeout(120_000);
      urls = await urlsFor(broker);
      sender = new Sender({ broker: urls.brokerUrl, queue });
      worker = await startCeleryNodeWorker(urls.brokerUrl, urls.backendUrl, queue);
    });
    after(async () => {
      await sender.close();
      await worker?.stop();
    });

    const bundle = useOutbox(() => ({
      celery: { broker: urls.brokerUrl, backend: urls.backendUrl, queue },
    }));

    async function run(
      name: string,
      args: readonly unknown[],
      kwargs: Record<string, unknown> = {},
    ): Promise<unknown> {
      const { outbox, db } = bundle;
      const result = await outbox.transaction(() => outbox.celery.sendTask(name, args, kwargs));
      await sender.relay(db);
      return result.get(TIMEOUT_MS, INTERVAL_MS);
    }

    it('gets arguments, and its result is got', async () => {
      expect(await run('interop.add', [1, 2])).to.equal(3);
    });

    it('gets arguments by name, and none', async () => {
      const kwargs = { notify: true, nested: { list: [1, null, 2.5] } };
      expect(await run('interop.echo', [], kwargs)).to.deep.equal({ args: [], kwargs });
      expect(await run('interop.echo', [])).to.deep.equal({ args: [], kwargs: {} });
    });

    it('gets any character', async () => {
      const args = ['Grüße 日本語 🎉', 'quotes " \' \\', '\u0000\u001f\n\u2028', { 'ключ 🎉': ['é'] }];
      expect(await run('interop.echo', args, { 'a b': '👩‍👩‍👧' })).to.deep.equal({
        args,
        kwargs: { 'a b': '👩‍👩‍👧' },
      });
    });

    it('fails, and that is got', async () => {
      const error = await run('interop.fail', ['no']).catch((reason: unknown) => reason);
      expect(error).to.be.an('error').with.property('message', 'FAILURE');
    });
  });
}
