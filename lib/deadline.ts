/**
 * Waits for a promise, but no longer than `ms`. The promise itself goes on; its later rejection is not lost
 * as an unhandled one.
 *
 * @returns true if it settled (either way) in time.
 */
export async function settledWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => {
      resolve(false);
    }, ms);
  });
  const settled = promise.then(
    () => true,
    () => true,
  );
  try {
    return await Promise.race([settled, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** What the promise settles with, or the error that `late` makes if that takes longer than `ms`. */
export async function within<T>(promise: Promise<T>, ms: number, late: () => Error): Promise<T> {
  if (!(await settledWithin(promise, ms))) throw late();
  return promise;
}
