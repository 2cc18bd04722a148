import { expect } from 'chai';
import { CeleryOutboxError, type ErrorCode } from '../../lib/errors';

/** Runs `action`, which must throw a coded error, and returns the error for a closer look. */
export function refusal(code: ErrorCode, action: () => unknown): CeleryOutboxError {
  try {
    action();
  } catch (error) {
    if (!(error instanceof CeleryOutboxError)) throw error;
    expect(error.code, error.message).to.equal(code);
    expect(error.message.length, 'a message is never a dump').to.be.below(400);
    return error;
  }
  throw new Error(`expected ${code}, but nothing was thrown`);
}
