/**
 * A promise that knows whether anybody waits for it. A send whose promise nobody watched, and which failed,
 * must not end in an answer that says success.
 */
export class WatchedPromise<T> extends Promise<T> {
  // Derived promises are plain ones: only the send itself is of interest.
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  #observed = false;

  /** True once somebody awaits it or has attached a handler. */
  get observed(): boolean {
    return this.#observed;
  }

  override then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#observed = true;
    return super.then(onFulfilled, onRejected);
  }

  /**
   * Looks at the outcome without counting as an observer. It takes on the duty to report a rejection: Node
   * no longer sees it as unhandled.
   */
  peek(onFulfilled: () => void, onRejected: (reason: unknown) => void): void {
    void super.then(onFulfilled, onRejected);
  }

  static of<T>(work: Promise<T>): WatchedPromise<T> {
    return new WatchedPromise<T>((resolve, reject) => {
      work.then(resolve, reject);
    });
  }
}
