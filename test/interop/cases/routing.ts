import { expect } from 'chai';
import type { TaskOptions } from '../../../lib';
import type { Interop } from '../interop';
import { Sender } from '../sender';

export function routingCases(interop: Interop): void {
  async function deliveryOf(options: TaskOptions): Promise<unknown> {
    const seen = await interop.run('interop.inspect', [], {}, options);
    return (seen as { delivery_info: unknown }).delivery_info;
  }

  it('through another queue', async () => {
    const { otherQueue } = interop.names;
    expect(await deliveryOf({ queue: otherQueue })).to.include({ exchange: '', routing_key: otherQueue });
  });

  it('through an exchange and a routing key', async () => {
    const { exchange } = interop.names;
    const routingKey = 'orders.new.de';
    expect(await deliveryOf({ exchange, routingKey })).to.include({ exchange, routing_key: routingKey });
  });

  it('through the default exchange, by the name of a queue', async () => {
    const { otherQueue } = interop.names;
    const delivery = await deliveryOf({ exchange: '', routingKey: otherQueue });
    expect(delivery).to.include({ exchange: '', routing_key: otherQueue });
  });

  it('by what the routes say of a task', async () => {
    const { brokerUrl: broker, names, results } = interop;
    const routes = { 'interop.insp*': { queue: names.otherQueue, priority: 2 } };
    const sender = new Sender({ broker, queue: names.queue, routes });
    try {
      const [taskId] = await sender.send([{ name: 'interop.inspect' }]);
      const seen = (await results.result(taskId!)) as { delivery_info: unknown };
      expect(seen.delivery_info).to.include({ routing_key: names.otherQueue, priority: 2 });
    } finally {
      await sender.close();
    }
  });
}
