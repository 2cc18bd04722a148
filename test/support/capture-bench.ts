import { inflateSync } from 'node:zlib';
import type { CapturedMessage, Golden } from './golden';

/** A broker in the state that it had before a captured call, and what lies in it afterwards. */
export interface CaptureBench {
  /** Where the publisher connects to. */
  readonly url: string;
  /** Takes away what an earlier call left, and creates the capture's exchanges, queues and bindings. */
  prepare(golden: Golden): Promise<void>;
  /** Takes everything out: first of the queues of the capture's messages, in their order, then of all others. */
  take(golden: Golden): Promise<CapturedMessage[]>;
  close(): Promise<void>;
}

export function bodyText(body: Buffer, headers: Record<string, unknown>): string {
  return (headers['compression'] === 'application/x-gzip' ? inflateSync(body) : body).toString();
}
