import { randomUUID } from 'node:crypto';
import type { CelerySettings } from '../../lib/celery-options';
import { parseCeleryOptions } from '../../lib/celery-options';
import type { Broker, BrokerHarness, BrokerTimeouts } from '../../lib/testing';
import { startServices, type Service, type ServiceName, type Services } from '../../services';
import { createLink, type Link } from './link';

/** A harness over a real server of its own, which is there between `open` and `close`. */
export abstract class RealHarness implements BrokerHarness {
  abstract readonly deadEnds: BrokerHarness['deadEnds'];
  abstract readonly badMessages: BrokerHarness['badMessages'];
  /** Left out for a server that somebody gave us: it is not ours to restart. */
  declare restart?: () => Promise<void>;
  readonly #name: ServiceName;
  #services: Services | undefined;
  #link: Link | undefined;

  constructor(name: ServiceName, variable: string) {
    this.#name = name;
    if (!process.env[variable]) this.restart = () => this.crash();
  }

  abstract create(settings: CelerySettings): Broker;
  abstract createQueue(): Promise<string>;
  abstract take: BrokerHarness['take'];
  protected abstract crash(): Promise<void>;

  async open(): Promise<void> {
    this.#services = await startServices([this.#name]);
    this.#link = await createLink(this.service.url);
  }

  async close(): Promise<void> {
    await this.#link?.stop();
    await this.#services?.close();
  }

  createBroker(timeouts: BrokerTimeouts): Broker {
    return this.create(parseCeleryOptions({ broker: this.link.url, ...timeouts }));
  }

  async stop(): Promise<void> {
    await this.link.stop();
  }

  async start(): Promise<void> {
    await this.link.start();
  }

  silence(): Promise<void> {
    this.link.silence();
    return Promise.resolve();
  }

  countConnections(): number {
    return this.link.connections;
  }

  protected get service(): Service {
    return this.#services![this.#name];
  }

  protected get link(): Link {
    return this.#link!;
  }

  protected freshName(): string {
    return `contract-${randomUUID()}`;
  }
}
