/** Runs an operation on every item, on at most `limit` of them at a time. Settles when none of them is running. */
export async function inParallel<T>(
  items: Iterable<T>,
  limit: number,
  operation: (item: T) => Promise<void>,
): Promise<void> {
  const left = items[Symbol.iterator]();
  const work = async (): Promise<void> => {
    for (let next = left.next(); next.done !== true; next = left.next()) await operation(next.value);
  };
  const results = await Promise.allSettled(Array.from({ length: limit }, work));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}
