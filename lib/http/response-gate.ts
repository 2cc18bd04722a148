import type { ServerResponse } from 'node:http';
import { assertChunk, assertHead } from './response-checks';
import { restoreMethods, shadow, snapshotMethods } from './response-shadow';

type Method = (...args: unknown[]) => unknown;
type HeldMethod = 'writeHead' | 'write' | 'end' | 'flushHeaders';
type Phase = 'open' | 'deciding' | 'committing' | 'released' | 'discarded';

export interface GateHooks {
  /** The response wants to begin: the head is final. Answered by `release` or `discard`. */
  onFirstByte(): void;
  /** A second answer after a complete one. Reported at most once. */
  onSecondAnswer(phase: 'deciding' | 'committing'): void;
}

// What Node, Express and the middlewares of the field (compression, express-session look at `_header` itself)
// must see once the head is final, though not a byte has left.
const HELD_HEAD = 'held until COMMIT is proven';
const HEAD_SETTERS = ['setHeader', 'appendHeader', 'removeHeader', 'setHeaders', 'writeHead'] as const;

/**
 * Holds a response back: nothing of it leaves before `release`, and after `discard` nothing of it ever will.
 *
 * The calls that make bytes leave (write, end, flushHeaders) and the head (writeHead) are queued and replayed in
 * order on what stood below when the gate was made, so the bytes are the ones that would have left without
 * it. Meanwhile `write` answers false, which makes a pipe wait for 'drain'.
 */
export class ResponseGate {
  readonly #res: ServerResponse;
  readonly #hooks: GateHooks;
  readonly #below: Readonly<Record<HeldMethod, Method>>;
  readonly #pristine: () => void;
  readonly #undo: (() => void)[] = [];
  #queue: (() => unknown)[] = [];
  #phase: Phase = 'open';
  #head: { status: number; message: string } | undefined;
  #implicitHead = false;
  #ended = false;
  #mustDrain = false;
  #contradicted = false;

  constructor(res: ServerResponse, hooks: GateHooks) {
    this.#res = res;
    this.#hooks = hooks;
    this.#pristine = remember(res);
    const { writeHead, write, end, flushHeaders } = res as unknown as Record<HeldMethod, Method>;
    this.#below = { writeHead, write, end, flushHeaders };
    Object.assign(res, {
      writeHead: (...args: unknown[]) => this.#writeHead(args),
      write: (...args: unknown[]) => this.#write(args),
      end: (...args: unknown[]) => this.#end(args),
      flushHeaders: (...args: unknown[]) => this.#flushHeaders(args),
    });
  }

  /** From here on a second answer can no longer change the outcome. */
  commit(): void {
    this.#phase = 'committing';
  }

  /** Lets the held response go, and everything after it pass. */
  release(): void {
    this.#stopPretending();
    this.#phase = 'released';
    if (this.#head !== undefined) {
      this.#res.statusCode = this.#head.status;
      this.#res.statusMessage = this.#head.message;
    }
    // The layers behind us have had their turn with the head; Node calls writeHead by name once more.
    if (this.#implicitHead) this.#res.writeHead = this.#below.writeHead as ServerResponse['writeHead'];
    try {
      for (const replay of this.#queue.splice(0)) replay();
    } catch (error) {
      this.#res.destroy(error as Error);
    }
    if (this.#mustDrain && !this.#ended && !this.#res.writableNeedDrain) this.#res.emit('drain');
  }

  /**
   * Forgets the held response: status, headers and methods are what they were when the gate was made, so that an
   * error handler can answer. What the layers behind still write (compression does, later) goes nowhere.
   */
  discard(): void {
    this.#stopPretending();
    this.#phase = 'discarded';
    this.#queue = [];
    this.#pristine();
  }

  #writeHead(args: unknown[]): unknown {
    if (this.#phase === 'released') return this.#call('writeHead', args);
    if (this.#phase === 'discarded') return this.#res;
    assertHead(args);
    this.#holdHead(args[0] as number, typeof args[1] === 'string' ? args[1] : this.#res.statusMessage);
    if (!this.#implicitHead) this.#queue.push(() => this.#call('writeHead', args));
    return this.#res;
  }

  #write(args: unknown[]): unknown {
    if (this.#phase === 'released') return this.#call('write', args);
    if (this.#phase === 'discarded') return false;
    assertChunk(args[0]);
    if (this.#ended) return this.#secondAnswer(false);
    this.#firstByte(() => this.#call('write', args));
    this.#mustDrain = true;
    return false;
  }

  #end(args: unknown[]): unknown {
    if (this.#phase === 'released') return this.#call('end', args);
    if (this.#phase === 'discarded') return this.#res;
    const hasChunk = typeof args[0] !== 'function' && args[0] != null;
    if (hasChunk) assertChunk(args[0]);
    // A bare second end() is harmless without us, too.
    if (this.#ended) return hasChunk ? this.#secondAnswer(this.#res) : this.#res;
    this.#ended = true;
    this.#firstByte(() => this.#call('end', args));
    this.#pretendEnded();
    return this.#res;
  }

  #flushHeaders(args: unknown[]): void {
    if (this.#phase === 'released') this.#call('flushHeaders', args);
    else if (this.#phase !== 'discarded') this.#firstByte(() => this.#call('flushHeaders', args));
  }

  #call(name: HeldMethod, args: unknown[]): unknown {
    return this.#below[name].apply(this.#res, args);
  }

  #firstByte(replay: () => unknown): void {
    this.#queue.push(replay);
    if (this.#head === undefined) this.#writeImplicitHead();
    if (this.#phase !== 'open') return;
    this.#phase = 'deciding';
    this.#hooks.onFirstByte();
  }

  // Through the outermost writeHead, as Node does it, so that the layers behind us set their headers. It is not
  // replayed: Node writes it again by itself, and then knows the length of a body that came with end().
  #writeImplicitHead(): void {
    this.#implicitHead = true;
    try {
      this.#res.writeHead(this.#res.statusCode);
    } catch (error) {
      this.#queue.pop();
      this.#implicitHead = false;
      this.#ended = false;
      throw error;
    }
  }

  #holdHead(status: number, message: string): void {
    this.#res.statusCode = status;
    this.#head = { status, message };
    this.#undo.push(shadow(this.#res, '_header', HELD_HEAD));
  }

  #pretendEnded(): void {
    this.#undo.push(shadow(this.#res, 'finished', true));
    // Node would throw here, Express would then destroy the socket, and a client would lose an answer that
    // may already be committed.
    for (const name of HEAD_SETTERS) {
      this.#undo.push(shadow(this.#res, name, () => this.#secondAnswer(this.#res)));
    }
  }

  #stopPretending(): void {
    while (this.#undo.length > 0) this.#undo.pop()?.();
  }

  #secondAnswer<T>(result: T): T {
    if (!this.#contradicted && (this.#phase === 'deciding' || this.#phase === 'committing')) {
      this.#contradicted = true;
      this.#hooks.onSecondAnswer(this.#phase);
    }
    return result;
  }
}

/** @returns what brings status, headers and methods back to where they are now. */
function remember(res: ServerResponse): () => void {
  const { statusCode, statusMessage } = res;
  const headers = rawHeaderNames(res).map((name) => [name, res.getHeader(name)] as const);
  const methods = snapshotMethods(res);
  return () => {
    restoreMethods(res, methods);
    for (const name of res.getHeaderNames()) res.removeHeader(name);
    for (const [name, value] of headers) if (value !== undefined) res.setHeader(name, value);
    res.statusCode = statusCode;
    res.statusMessage = statusMessage;
  };
}

// As they were written, X-Powered-By and not x-powered-by. On every response since Node 15.4, but only in the
// types of the client's requests.
function rawHeaderNames(res: ServerResponse): string[] {
  return (res as unknown as { getRawHeaderNames(): string[] }).getRawHeaderNames();
}
