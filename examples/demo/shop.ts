import express, { type ErrorRequestHandler, type Express } from 'express';
import type { Outbox } from '../../lib';

/** A shop with one endpoint: an order and its task are stored together, or not at all. */
export function createShop(outbox: Outbox): Express {
  const app = express();
  app.use(express.json());
  app.use(outbox.middleware({ context: (req) => ({ requestId: req.headers['x-request-id'] }) }));

  app.post('/orders', async (req, res) => {
    const { item, quantity } = req.body as { item: string; quantity: number };
    const [order] = await req.trx('orders').insert({ item, quantity }).returning<{ id: number }[]>('*');
    await req.celery.sendTask(
      'orders.process',
      [order?.id],
      { notify: true },
      { countdown: 60, queue: 'orders' },
    );
    res.status(201).json(order);
  });

  const answer: ErrorRequestHandler = (error: Error & { status?: number }, _req, res, _next) => {
    res.status(error.status ?? 500).json({ error: error.message });
  };
  app.use(answer);
  return app;
}
