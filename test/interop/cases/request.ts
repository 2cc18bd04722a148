import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import type { TaskOptions } from '../../../lib';
import type { Interop } from '../interop';

export function requestCases(interop: Interop): void {
  async function seenWith(options: TaskOptions, args: readonly unknown[] = []): Promise<Seen> {
    return (await interop.run('interop.inspect', args, {}, options)) as Seen;
  }

  it('the defaults of a plain call', async () => {
    const taskId = randomUUID();
    const seen = await seenWith({ taskId }, [1, 'two']);
    expect(seen).to.deep.include({
      ...{ task: 'interop.inspect', id: taskId, root_id: taskId, correlation_id: taskId, parent_id: null },
      ...{ args: [1, 'two'], kwargs: {}, retries: 0, timelimit: [null, null], ignore_result: false },
      ...{ eta: null, expires: null, group: null, group_index: null, shadow: null },
      ...{ callbacks: null, errbacks: null, chain: null, chord: null },
    });
    expect(seen.properties).to.include({ delivery_mode: 2, priority: 0 });
    expect(seen.delivery_info).to.include({ exchange: '', routing_key: interop.names.queue, priority: 0 });
    expect(seen.origin).to.match(/^gen\d+@./);
  });

  it('its ids and its place', async () => {
    const seen = await seenWith({
      ...{ taskId: `${interop.names.queue} any id: 🎉`, rootId: 'root', parentId: 'parent' },
      ...{ correlationId: 'correlation', replyTo: 'reply', groupId: 'group', groupIndex: 200 },
    });
    expect(seen).to.deep.include({
      ...{ id: `${interop.names.queue} any id: 🎉`, root_id: 'root', parent_id: 'parent' },
      ...{ correlation_id: 'correlation', reply_to: 'reply', group: 'group', group_index: 200 },
    });
  });

  // py-amqp 5.1 reads the sixteen-bit integers of amqplib as strings, and the worker dies of them.
  for (const number of [127, 128, 300, 32_767]) {
    it(`retries and time limits of ${String(number)}`, async () => {
      const seen = await seenWith({ retries: number, timeLimit: number, softTimeLimit: number - 1 });
      expect(seen).to.deep.include({ retries: number, timelimit: [number, number - 1] });
    });
  }

  it('whose time limit has a fraction', async () => {
    expect(await seenWith({ timeLimit: 200.5 })).to.deep.include({ timelimit: [200.5, null] });
  });

  it('what logs and monitors show of it', async () => {
    const seen = await seenWith({ shadow: 'a shadow', argsrepr: '(<secret>)', kwargsrepr: '{é}' }, [
      's3cret',
    ]);
    expect(seen).to.include({ shadow: 'a shadow', argsrepr: '(<secret>)', kwargsrepr: '{é}' });
    const long = await seenWith({}, ['🎉'.repeat(5000)]);
    expect(long.argsrepr)
      .to.be.a('string')
      .and.match(/^\["🎉+/u);
    expect(long.argsrepr.length).to.be.within(1000, 1024);
  });

  it('whose result nobody wants', async () => {
    const key = randomUUID();
    const call = { name: 'interop.note_request', args: [key], options: { ignoreResult: true } };
    const [taskId] = await interop.sender.send([call]);
    const [seen] = await interop.results.notes(key, 1);
    expect(seen).to.include({ id: taskId, ignore_result: true });
  });

  it("the message's properties", async () => {
    const seen = await seenWith({
      ...{ priority: 3, deliveryMode: 1, messageId: 'message', appId: 'app', type: 'kind' },
      timestamp: 1_900_000_000,
    });
    expect(seen.properties).to.include({
      ...{ priority: 3, delivery_mode: 1, message_id: 'message', app_id: 'app', type: 'kind' },
    });
    expect(seen.properties['timestamp']).to.be.oneOf([1_900_000_000, '1900000000']);
    expect(seen.delivery_info.priority).to.equal(3);
  });
}

interface Seen extends Record<string, unknown> {
  origin: string;
  argsrepr: string;
  properties: Record<string, unknown>;
  delivery_info: Record<string, unknown> & { priority: number };
}
