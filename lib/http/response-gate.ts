import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { isHandlerOf } from './handler-scope';
import { assertChunk, rehearseHead } from './response-checks';
import { rememberResponse } from './response-memory';
import { guardProperty, shadow } from './response-shadow';

type Method = (...args: unknown[]) => unknown;
type Listener = Method & { listener?: Method };
type HeldMethod = 'writeHead' | 'write' | 'end' | 'flushHeaders';
type BelowMethod = HeldMethod | 'on' | 'addListener' | 'off' | 'removeListener';
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
  readonly #below: Readonly<Record<BelowMethod, Method>>;
  readonly #pristine: () => void;
  readonly #undo: (() => void)[] = [];
  readonly #sources: Readable[] = [];
  #queue: (() => unknown)[] = [];
  #waiting: Listener[] = [];
  #phase: Phase = 'open';
  #head: { args: unknown[]; statusCode: number; statusMessage: string } | undefined;
  #implicitHead = false;
  #ended = false;
  #mustDrain = false;
  #contradicted = false;

  constructor(res: ServerResponse, hooks: GateHooks) {
    this.#res = res;
    this.#hooks = hooks;
    this.#pristine = rememberResponse(res);
    const methods = res as unknown as Record<BelowMethod, Method>;
    const { writeHead, write, end, flushHeaders, on, addListener, off, removeListener } = methods;
    this.#below = { writeHead, write, end, flushHeaders, on, addListener, off, removeListener };
    this.#call('on', ['pipe', (source: Readable) => this.#sources.push(source)]);
    Object.assign(res, {
      writeHead: (...args: unknown[]) => this.#writeHead(args),
      write: (...args: unknown[]) => this.#write(args),
      end: (...args: unknown[]) => this.#end(args),
      flushHeaders: (...args: unknown[]) => this.#flushHeaders(args),
      on: (...args: unknown[]) => this.#listen('on', args),
      addListener: (...args: unknown[]) => this.#listen('addListener', args),
      off: (...args: unknown[]) => this.#unlisten('off', args),
      removeListener: (...args: unknown[]) => this.#unlisten('removeListener', args),
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
      const { args, statusCode, statusMessage } = this.#head;
      Object.assign(this.#res, { statusCode, statusMessage });
      // The layers behind us have had their turn with the head; Node calls writeHead by name once more.
      if (this.#implicitHead) this.#res.writeHead = () => this.#call('writeHead', args) as ServerResponse;
    }
    const waiting = this.#waiting.splice(0);
    for (const listener of waiting) this.#call('on', ['drain', listener]);
    try {
      for (const replay of this.#queue.splice(0)) replay();
    } catch (error) {
      this.#res.destroy(error as Error);
    }
    if (this.#mustDrain && !this.#ended) for (const listener of waiting) listener.call(this.#res);
  }

  /**
   * Forgets the held response: status, headers and methods are what they were when the gate was made, so that an
   * error handler can answer. What the layers behind still write (compression does, later) goes nowhere, and
   * pipes are cut: else the 'drain' of the error handler's answer would let them write on, into it.
   */
  discard(): void {
    this.#stopPretending();
    this.#phase = 'discarded';
    this.#queue = [];
    this.#waiting = [];
    for (const source of this.#sources) this.#cut(source);
    this.#pristine();
    this.#silenceHandler();
  }

  // Nobody reads it any more: a file would stay open. But the request shares its socket with the answer.
  #cut(source: Readable): void {
    source.unpipe(this.#res);
    if (source === this.#res.req) source.resume();
    else source.destroy();
  }

  // The handler does not know that its time is over. It must not answer in place of an error handler that is still
  // thinking, nor change the status or the headers under its hands.
  #silenceHandler(): void {
    const isSilenced = (): boolean => isHandlerOf(this);
    for (const name of [...HEAD_SETTERS, 'write', 'end', 'flushHeaders'] as const) {
      const method = Reflect.get(this.#res, name) as Method;
      const nothing = name === 'write' ? false : this.#res;
      Reflect.set(this.#res, name, (...args: unknown[]) =>
        isSilenced() ? nothing : method.apply(this.#res, args),
      );
    }
    for (const name of ['statusCode', 'statusMessage'] as const) guardProperty(this.#res, name, isSilenced);
  }

  #writeHead(args: unknown[]): unknown {
    if (this.#phase === 'released') return this.#call('writeHead', args);
    if (this.#phase === 'discarded') return this.#res;
    this.#holdHead(args);
    if (!this.#implicitHead) this.#queue.push(() => this.#call('writeHead', args));
    return this.#res;
  }

  #write(args: unknown[]): unknown {
    if (this.#phase === 'released') return this.#call('write', args);
    if (this.#phase === 'discarded') return false;
    assertChunk(this.#res, args);
    if (this.#ended) return this.#secondAnswer(false);
    this.#firstByte(() => {
      // Whoever was told to wait will hear of it from below.
      if (this.#call('write', args) === false) this.#mustDrain = false;
    });
    if (!this.#mustDrain) this.#pretend('writableNeedDrain', true);
    this.#mustDrain = true;
    return false;
  }

  #end(args: unknown[]): unknown {
    if (this.#phase === 'released') return this.#call('end', args);
    if (this.#phase === 'discarded') return this.#res;
    // Layers below may take a callback for a chunk (compression and express-session do), and would throw.
    const callback = args.find((arg) => typeof arg === 'function') as (() => void) | undefined;
    const body = args.filter((arg) => typeof arg !== 'function');
    const isBare = !body[0];
    if (!isBare) assertChunk(this.#res, body);
    // A bare second end() is harmless without us, too.
    if (this.#ended && !isBare) return this.#secondAnswer(this.#res);
    this.#ended = true;
    this.#firstByte(() => {
      if (callback !== undefined) this.#res.once('finish', callback);
      this.#call('end', body);
    });
    this.#pretendEnded();
    return this.#res;
  }

  #flushHeaders(args: unknown[]): void {
    if (this.#phase === 'released') this.#call('flushHeaders', args);
    else if (this.#phase !== 'discarded') this.#firstByte(() => this.#call('flushHeaders', args));
  }

  // Listeners of 'drain' are held, too: they wait for our word, not for one from below. A layer there (compression)
  // may take them away to a stream of its own, where a 'drain' of ours would not reach them.
  #listen(name: 'on' | 'addListener', args: unknown[]): unknown {
    if (args[0] !== 'drain' || !this.#isHeld()) return this.#call(name, args);
    this.#waiting.push(args[1] as Listener);
    return this.#res;
  }

  #unlisten(name: 'off' | 'removeListener', args: unknown[]): unknown {
    const [event, removed] = args;
    if (event !== 'drain' || !this.#isHeld()) return this.#call(name, args);
    // One that was added by once() is wrapped.
    this.#waiting = this.#waiting.filter((one) => one !== removed && one.listener !== removed);
    return this.#res;
  }

  #isHeld(): boolean {
    return this.#phase !== 'released' && this.#phase !== 'discarded';
  }

  #call(name: BelowMethod, args: unknown[]): unknown {
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

  // A layer below may look at the status before it passes the head on, so the one that stood is put back then.
  #holdHead(args: unknown[]): void {
    const { statusCode, statusMessage } = this.#res;
    Object.assign(this.#res, rehearseHead(this.#res, args));
    this.#head = { args, statusCode, statusMessage };
    this.#pretend('_header', HELD_HEAD);
  }

  #pretendEnded(): void {
    this.#pretend('finished', true);
    this.#pretend('writableFinished', false);
    this.#pretend('writableNeedDrain', false);
    // Node would throw here, Express would then destroy the socket, and a client would lose an answer that
    // may already be committed.
    for (const name of HEAD_SETTERS) {
      this.#pretend(name, () => this.#secondAnswer(this.#res));
    }
  }

  #pretend(name: string, value: unknown): void {
    this.#undo.push(shadow(this.#res, name, value));
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
