import { expect } from 'chai';
import { CeleryOutboxError, type ErrorCode } from '../../lib';

/** Waits for a promise that must reject with a coded error, and returns the error for a closer look. */
export async function rejection(code: ErrorCode, promise: PromiseLike<unknown>): Promise<CeleryOutboxError> {
  try {
    await promise;
  } catch (error) {
    if (!(error instanceof CeleryOutboxError)) throw error;
    expect(error.code, error.message).to.equal(code);
    return error;
  }
  throw new Error(`expected ${code}, but it resolved`);
}
