import type { CeleryMessage, QueuedMessage } from '../../lib/testing';

/** What a broker has to a server while both know of it. */
export type Connection = object;

/** The least that a server can be: queues in memory, there or away or silent. */
export class MemoryServer {
  readonly connections = new Set<Connection>();
  readonly #queues = new Map<string, QueuedMessage[]>();
  #state: 'up' | 'away' | 'silent' = 'up';
  /** Grows when it crashes: what was not stored until then is lost. */
  lives = 0;

  get isAway(): boolean {
    return this.#state === 'away';
  }

  get isSilent(): boolean {
    return this.#state === 'silent';
  }

  createQueue(name: string): void {
    this.#queues.set(name, []);
  }

  has(queue: string): boolean {
    return this.#queues.has(queue);
  }

  store({ route, headers, properties, body }: CeleryMessage): void {
    this.#queues.get(route.routingKey)?.push({ headers, properties, body: Buffer.from(body) });
  }

  take(queue: string): QueuedMessage[] {
    return this.#queues.get(queue)?.splice(0) ?? [];
  }

  stop(): void {
    this.#state = 'away';
    this.connections.clear();
    this.lives += 1;
  }

  silence(): void {
    this.#state = 'silent';
  }

  start(): void {
    if (this.#state !== 'up') this.connections.clear();
    this.#state = 'up';
  }
}
