import { signature, type Signature } from '../../../lib';

// Tasks of test/interop/worker/tasks.py. One that follows another has one argument less.
export const add = (...terms: number[]): Signature => signature('interop.add', terms);
export const multiply = (...factors: number[]): Signature => signature('interop.multiply', factors);
export const tsum = (): Signature => signature('interop.tsum');
export const echo = (...args: unknown[]): Signature => signature('interop.echo', args);
export const inspect = (): Signature => signature('interop.inspect');
export const fail = (taskId: string): Signature => signature('interop.fail', ['no'], {}, { taskId });
/** Notes the result of the task before it. */
export const noteResult = (key: string): Signature => signature('interop.note_result', [], { key });
/** Notes the id of the failed task, under that id. */
export const errback = (): Signature => signature('interop.errback');
