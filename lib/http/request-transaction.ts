import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Knex } from 'knex';
import { assertSync } from '../assert-options';
import { CeleryOutboxError } from '../errors';
import type { MiddlewareSettings } from '../options';
import type { UnitOfWork } from '../outbox/unit-of-work';
import { logEvent, type Logger } from '../telemetry/logger';
import { runAsErrorHandling, runAsHandler } from './handler-scope';
import { ResponseGate } from './response-gate';

// What the handler does in the same breath as its answer still counts: a second answer, or an exception. Of the
// exception we learn when Express destroys the socket, because the response seems to have left; each router that
// it passes on the way out defers it by one turn of the event loop, so this allows for six, one inside the other.
const TURNS_BEFORE_COMMIT = 8;

export type Next = (error?: unknown) => void;

/** One request on its way through a Connect-style stack. */
export interface Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly next: Next;
}

/**
 * Ties one request to one unit of work. The first byte of the response decides: it commits or rolls back, and
 * leaves after that. A client that goes away, or a handler that does not answer in time, rolls back.
 */
export class RequestTransaction {
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  readonly #next: Next;
  readonly #settings: MiddlewareSettings;
  readonly #logger: Logger;
  readonly #gate: ResponseGate;
  readonly #timer: NodeJS.Timeout;
  #unit: UnitOfWork | undefined;
  #phase: 'open' | 'deciding' | 'settling' = 'open';
  #interrupt: (error: unknown) => void = () => undefined;

  constructor(exchange: Exchange, settings: MiddlewareSettings, logger: Logger) {
    this.#req = exchange.req;
    this.#res = exchange.res;
    this.#next = exchange.next;
    this.#settings = settings;
    this.#logger = logger;
    this.#gate = new ResponseGate(exchange.res, {
      onFirstByte: () => void this.#settle(),
      onSecondAnswer: (phase) => {
        this.#secondAnswer(phase);
      },
    });
    this.#timer = setTimeout(() => void this.#timeOut(), settings.timeoutMs);
    this.#res.once('close', () => void this.#abort());
  }

  /** Hands the transaction to `run` once it is open, unless the client has gone or time is up by then. */
  async start(opening: Promise<UnitOfWork>, run: (trx: Knex.Transaction) => void): Promise<void> {
    try {
      const unit = await opening;
      if (this.#phase !== 'open') {
        await unit.rollback();
        return;
      }
      this.#unit = unit;
      runAsHandler(this.#gate, () => run(unit.trx));
    } catch (error) {
      await this.#fail(error);
    }
  }

  async #abort(): Promise<void> {
    if (this.#settings.onAbort === 'rollback') await this.#fail(aborted());
  }

  async #timeOut(): Promise<void> {
    await this.#fail(timeoutError(this.#settings.timeoutMs));
  }

  /** Rolls back, unless COMMIT is on its way. */
  async #fail(error: unknown): Promise<void> {
    if (this.#phase === 'deciding') this.#interrupt(error);
    if (this.#phase !== 'open') return;
    this.#phase = 'settling';
    await this.#end(error);
  }

  async #settle(): Promise<void> {
    if (this.#phase !== 'open') return;
    this.#phase = 'deciding';
    this.#unit?.close();
    try {
      if (this.#shouldCommit()) await this.#commit();
      else await this.#rollback();
    } catch (error) {
      this.#phase = 'settling';
      await this.#end(error);
      return;
    }
    this.#gate.release();
  }

  async #commit(): Promise<void> {
    const interrupted = new Promise<never>((_, reject) => (this.#interrupt = reject));
    await Promise.race([this.#ready(), interrupted]);
    if (this.#isGone() && this.#settings.onAbort === 'rollback') throw aborted();
    this.#phase = 'settling';
    clearTimeout(this.#timer);
    this.#gate.commit();
    await this.#unit?.commit();
  }

  async #ready(): Promise<void> {
    for (let turn = 0; turn < TURNS_BEFORE_COMMIT; turn += 1) await nextTurn();
    await this.#unit?.drain();
  }

  async #rollback(): Promise<void> {
    this.#phase = 'settling';
    clearTimeout(this.#timer);
    await this.#unit?.rollback();
  }

  #shouldCommit(): boolean {
    const verdict: unknown = this.#settings.shouldCommit(this.#req, this.#res);
    if (typeof assertSync(verdict, 'shouldCommit', () => undefined) === 'boolean') return verdict as boolean;
    throw new CeleryOutboxError(
      'ERR_CELERY_OUTBOX_INVALID_OPTION',
      `shouldCommit must return a boolean, got ${typeof verdict}`,
    );
  }

  /** Rolls back, and lets the application's error handling answer if anybody is there to hear it. */
  async #end(error: unknown): Promise<void> {
    clearTimeout(this.#timer);
    this.#unit?.close();
    await this.#unit?.rollback();
    this.#gate.discard();
    if (this.#isGone()) return;
    runAsErrorHandling(() => {
      this.#next(error);
    });
  }

  #secondAnswer(phase: 'deciding' | 'committing'): void {
    if (phase === 'deciding') this.#interrupt(answeredTwice());
    else logEvent(this.#logger, 'warn', 'celery_outbox_answered_twice', { url: this.#req.url });
  }

  #isGone(): boolean {
    return this.#res.destroyed || this.#req.socket.destroyed;
  }
}

function timeoutError(timeoutMs: number): CeleryOutboxError {
  return new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_TIMEOUT',
    `Rolled back: the handler did not answer within timeoutMs (${String(timeoutMs)} ms)`,
    { statusCode: 503 },
  );
}

function answeredTwice(): CeleryOutboxError {
  return new CeleryOutboxError('ERR_CELERY_OUTBOX_ANSWERED_TWICE', 'Rolled back: the handler answered twice');
}

function aborted(): CeleryOutboxError {
  return new CeleryOutboxError('ERR_CELERY_OUTBOX_ABORTED', 'Rolled back: the client has gone', {
    statusCode: 499,
  });
}
