// The process of celery-node-worker.ts: it ends when the channel to its parent closes, however that happens.
import { createWorker } from 'celery-node';

const [broker, backend, queue] = process.argv.slice(2);

const worker = createWorker(broker, backend, queue);
// celery-node hands kwargs over as one more argument.
worker.register('interop.add', (x: number, y: number) => x + y);
worker.register('interop.echo', (...args: unknown[]) => ({ args: args.slice(0, -1), kwargs: args.at(-1) }));
worker.register('interop.fail', (message: string) => {
  throw new Error(message);
});

process.on('disconnect', () => process.exit());

void worker.isReady().then(() => {
  // Of Redis its promise is for the end of consuming.
  void worker.start();
  process.send?.('ready');
});
