import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import {
  type Broker,
  BrokerOutage,
  type BrokerTimeouts,
  type CeleryMessage,
  MessageFault,
  PUBLISHED,
  type PublishOutcome,
} from '../../lib/testing';
import type { Connection, MemoryServer } from './memory-server';

export const outage = (reason: string): PublishOutcome => ({
  status: 'outage',
  error: new BrokerOutage(reason),
});

/** Does not keep the process alive: a check that has failed waits for nothing any more. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await delay(ms, undefined, { ref: false, ...(signal && { signal }) });
}

/** A broker that keeps the contract, in steps that another one can get wrong. */
export class MemoryBroker implements Broker {
  protected readonly closing = new AbortController();
  protected readonly running = new Set<Promise<unknown>>();
  #opening: Promise<void> | undefined;
  protected connection: Connection | undefined;

  constructor(
    protected readonly server: MemoryServer,
    protected readonly timeouts: BrokerTimeouts,
  ) {}

  async connect(): Promise<void> {
    if (this.closing.signal.aborted) throw new BrokerOutage('closed');
    if (this.isConnected) return;
    this.#opening ??= this.open().finally(() => {
      this.#opening = undefined;
    });
    await this.#opening;
  }

  async publish(messages: readonly CeleryMessage[]): Promise<PublishOutcome[]> {
    const sending = this.send(messages);
    this.running.add(sending);
    try {
      return await sending;
    } finally {
      this.running.delete(sending);
    }
  }

  async close(): Promise<void> {
    this.closing.abort();
    await Promise.allSettled(this.running);
    this.disconnect();
  }

  protected get isConnected(): boolean {
    return this.connection !== undefined && this.server.connections.has(this.connection);
  }

  protected async open(): Promise<void> {
    await turn();
    if (this.server.isAway) throw new BrokerOutage('refused');
    this.connection = {};
    this.server.connections.add(this.connection);
    if (!this.server.isSilent) return;
    await this.wait(this.timeouts.connectTimeoutMs);
    this.disconnect();
    throw new BrokerOutage('no answer');
  }

  protected disconnect(): void {
    if (this.connection !== undefined) this.server.connections.delete(this.connection);
  }

  /** Until the time is over; or at once, when it is closed. */
  protected async wait(ms: number): Promise<void> {
    await pause(ms, this.closing.signal).catch(() => undefined);
  }

  protected async send(messages: readonly CeleryMessage[]): Promise<PublishOutcome[]> {
    try {
      if (messages.length > 0) await this.connect();
    } catch (error) {
      return messages.map(() => ({ status: 'outage', error: error as BrokerOutage }));
    }
    return this.transmit(messages);
  }

  protected async transmit(messages: readonly CeleryMessage[]): Promise<PublishOutcome[]> {
    await turn();
    if (this.server.isSilent) {
      await pause(this.timeouts.sendTimeoutMs);
      this.disconnect();
      return messages.map(() => outage('no answer'));
    }
    if (!this.isConnected) return messages.map(() => outage('connection lost'));
    return messages.map((message) => this.deliver(message));
  }

  protected deliver(message: CeleryMessage): PublishOutcome {
    const { exchange, routingKey } = message.route;
    if (exchange !== '' || !this.server.has(routingKey)) {
      return { status: 'fault', error: new MessageFault('ERR_CELERY_OUTBOX_UNROUTABLE', 'no such queue') };
    }
    if (message.headers['bad'] === true) {
      return { status: 'fault', error: new MessageFault('ERR_CELERY_OUTBOX_MESSAGE_REFUSED', 'bad') };
    }
    this.server.store(message);
    return PUBLISHED;
  }
}
