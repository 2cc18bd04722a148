import { expect } from 'chai';
import { WatchedPromise } from '../../../lib/outbox/watched-promise';

describe('WatchedPromise', () => {
  const nothing = (): void => undefined;

  it('has the outcome of the work', async () => {
    expect(await WatchedPromise.of(Promise.resolve(1))).to.equal(1);
    const error = new Error('x');
    expect(await WatchedPromise.of(Promise.reject(error)).catch((reason: unknown) => reason)).to.equal(error);
  });

  it('is observed once somebody attaches a handler, in whatever way', async () => {
    const ways: ((promise: Promise<number>) => unknown)[] = [
      (promise) => promise.then(nothing),
      (promise) => promise.catch(nothing),
      (promise) => promise.finally(nothing),
      (promise) => Promise.all([promise]),
      (promise) => (async () => promise)(),
      async (promise) => {
        await promise;
      },
    ];
    for (const observe of ways) {
      const promise = WatchedPromise.of(Promise.resolve(1));
      expect(promise.observed).to.equal(false);
      void observe(promise);
      // An async function that returns it subscribes a microtask later.
      await Promise.resolve();
      expect(promise.observed, observe.toString()).to.equal(true);
    }
  });

  it('is not observed by a peek, which takes on the rejection', async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', note);
    const promise = WatchedPromise.of(Promise.reject(new Error('x')));
    const seen = await new Promise((resolve) => {
      promise.peek(nothing, resolve);
    });
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', note);
    expect(seen).to.have.property('message', 'x');
    expect(promise.observed).to.equal(false);
    expect(unhandled).to.deep.equal([]);
  });

  it('peeks at success', async () => {
    const promise = WatchedPromise.of(Promise.resolve(1));
    await new Promise<void>((resolve) => {
      promise.peek(resolve, nothing);
    });
    expect(promise.observed).to.equal(false);
  });

  it('gives plain promises to those who derive from it', () => {
    const promise = WatchedPromise.of(Promise.resolve(1));
    expect(promise).to.be.instanceOf(Promise);
    expect(promise.then(nothing)).not.to.be.instanceOf(WatchedPromise);
  });
});
