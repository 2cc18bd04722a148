import type { EventEmitter } from 'node:events';
import type { Knex } from 'knex';
import { settledWithin, within } from '../deadline';

// The parts of knex's PostgreSQL client and of pg's Client that are not in their types. The tests of the wake-up fail
// if one goes away.
interface KnexClient {
  readonly driver: { readonly Client: new (settings: unknown) => PgClient };
  readonly connectionSettings?: object;
  readonly connectionConfigProvider?: () => object | Promise<object>;
  readonly config: { readonly connectionPool?: { readonly options?: object } };
}
interface PgClient extends EventEmitter {
  readonly connection: { readonly stream: { destroy(): void; unref?(): void } };
  connect(): Promise<unknown>;
  query(text: string, values: readonly unknown[]): Promise<unknown>;
  end(): Promise<unknown>;
}

export interface OwnConnectionOptions {
  /** Told once if it breaks while it is open; not of a failure to connect, nor of what we close ourselves. */
  readonly onLost?: (error: Error) => void;
  readonly onNotification?: () => void;
  /** It does not keep the process alive. */
  readonly isBackground?: boolean;
}

/**
 * A connection to the database of a Knex instance, outside its pool: it takes none away from requests, and can be cut
 * in any state, also while it is being opened.
 */
export class OwnConnection {
  readonly #knex: Knex;
  readonly #options: OwnConnectionOptions;
  #client: PgClient | undefined;
  #state: 'connecting' | 'open' | 'over' = 'connecting';

  constructor(knex: Knex, options: OwnConnectionOptions = {}) {
    this.#knex = knex;
    this.#options = options;
  }

  get isOver(): boolean {
    return this.#state === 'over';
  }

  /** To be called once; when it rejects, the connection is over. */
  async connect(timeoutMs: number): Promise<void> {
    try {
      await within(this.#connect(), timeoutMs, () => late('to the connection', timeoutMs));
      if (this.isOver) throw new Error('the connection was closed while it was opened');
      this.#state = 'open';
    } catch (error) {
      this.destroy();
      throw error;
    }
  }

  /** Runs a statement; when no answer comes in time, the connection is over. */
  async run(statement: string, values: readonly unknown[], timeoutMs: number): Promise<void> {
    if (this.#client === undefined || this.isOver) throw new Error('the connection is closed');
    const answer = this.#client.query(statement, values);
    if (!(await settledWithin(answer, timeoutMs))) {
      this.destroy();
      throw late('to a statement', timeoutMs);
    }
    await answer;
  }

  /** Takes leave of PostgreSQL, which may take so long over it. Never rejects. */
  async close(timeoutMs: number): Promise<void> {
    const isOpen = this.#state === 'open';
    this.#state = 'over';
    if (isOpen && this.#client !== undefined) await settledWithin(this.#client.end(), timeoutMs);
    this.destroy();
  }

  destroy(): void {
    this.#state = 'over';
    this.#client?.connection.stream.destroy();
  }

  async #connect(): Promise<void> {
    const knexClient = this.#knex.client as KnexClient;
    const settings = await settingsOf(knexClient);
    if (this.isOver) return;
    const client = new knexClient.driver.Client(settings);
    this.#client = client;
    client.on('error', (error: Error) => this.#broken(error));
    client.on('end', () => this.#broken(new Error('the connection ended')));
    client.on('notification', () => this.#options.onNotification?.());
    this.#unref(client);
    await client.connect();
    // With TLS it is another stream by now.
    this.#unref(client);
  }

  #broken(error: Error): void {
    if (this.#state !== 'open') return;
    this.destroy();
    this.#options.onLost?.(error);
  }

  #unref(client: PgClient): void {
    if (this.#options.isBackground === true) client.connection.stream.unref?.();
  }
}

// Settings that come from a function are asked for each time: passwords that expire are what it is for. A pool that
// knex was given has settings of its own, if it is pg's.
async function settingsOf(client: KnexClient): Promise<object> {
  if (client.connectionConfigProvider !== undefined) return client.connectionConfigProvider();
  const pool = client.config.connectionPool;
  const settings = pool === undefined ? client.connectionSettings : pool.options;
  if (settings !== undefined) return settings;
  throw new Error('the settings of the connection are unknown: connectionPool is not a pool of pg');
}

function late(what: string, timeoutMs: number): Error {
  return new Error(`no answer ${what} within ${String(timeoutMs)} ms`);
}
