import { closeSync, futimesSync, openSync } from 'node:fs';
import { CeleryOutboxError } from '../errors';
import type { RelaySettings } from './relay-options';

/** A file whose time is set while the relay works, for probes that look at how old it is. */
export class Liveness {
  readonly #file: string | undefined;
  readonly #patienceMs: number;

  constructor({ livenessFile, databaseTimeoutMs, celery }: RelaySettings) {
    this.#file = livenessFile;
    this.#patienceMs = 2 * (databaseTimeoutMs + celery.sendTimeoutMs);
  }

  /** @throws ERR_CELERY_OUTBOX_INVALID_OPTION if the file cannot be written */
  begin(): void {
    if (this.#file === undefined) return;
    try {
      touch(this.#file);
    } catch (error) {
      throw new CeleryOutboxError(
        'ERR_CELERY_OUTBOX_INVALID_OPTION',
        `createRelay: livenessFile must be a file that can be written, got ${JSON.stringify(this.#file)}: ${String(error)}`,
        { cause: error },
      );
    }
  }

  /** A pass that has hung for longer than anything in it may take is not alive. */
  beat(stalledMs: number): void {
    if (this.#file === undefined || stalledMs > this.#patienceMs) return;
    try {
      touch(this.#file);
    } catch {
      // A disk that is full must not stop the relay. The file gets old, and whoever looks at it sees that.
    }
  }
}

function touch(file: string): void {
  const descriptor = openSync(file, 'a');
  try {
    const now = new Date();
    futimesSync(descriptor, now, now);
  } finally {
    closeSync(descriptor);
  }
}
