import type { CelerySettings } from '../celery-options';
import { CeleryOutboxError } from '../errors';
import type { CeleryMessage } from '../message/celery-message';
import type { StoredTask } from '../message/stored-task';
import type { Logger } from '../telemetry/logger';
import { Publisher, type TaskOutcome } from './publisher';

/** Sends tasks of `excludeTasks`: at once and acknowledged, but outside any transaction and without a retry. */
export class DirectSender {
  readonly #settings: CelerySettings;
  readonly #logger: Logger;
  #publisher: Publisher | undefined;

  constructor(settings: CelerySettings, logger: Logger) {
    this.#settings = settings;
    this.#logger = logger;
  }

  /**
   * Resolves when the broker has acknowledged all of them.
   *
   * @throws ERR_CELERY_OUTBOX_DIRECT_SEND_FAILED for the first that it did not; others may have been sent
   */
  async send(tasks: readonly StoredTask[]): Promise<void> {
    if (tasks.length === 0) return;
    const outcomes = await this.#open().publish(tasks);
    assertPublished(
      outcomes,
      tasks.map((task) => task.taskName),
    );
  }

  /** As {@link send}, for messages that are ready. */
  async sendMessage(message: CeleryMessage): Promise<void> {
    const outcomes = await this.#open().publishMessages([message]);
    assertPublished(outcomes, [message.headers['task'] as string]);
  }

  /** @throws BrokerOutage */
  async connect(): Promise<void> {
    await this.#open().connect();
  }

  /** Ends the connection; a later send opens a new one. */
  async close(): Promise<void> {
    const publisher = this.#publisher;
    this.#publisher = undefined;
    await publisher?.close();
  }

  #open(): Publisher {
    return (this.#publisher ??= new Publisher(this.#settings, this.#logger));
  }
}

function assertPublished(outcomes: readonly TaskOutcome[], taskNames: readonly string[]): void {
  const index = outcomes.findIndex((outcome) => outcome.status !== 'published');
  const failed = outcomes[index];
  if (failed === undefined || failed.status === 'published') return;
  const sent = outcomes.filter((outcome) => outcome.status === 'published').length;
  const others =
    sent === 0 ? '' : ` (${String(sent)} of ${String(outcomes.length)} tasks of this call were sent)`;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_DIRECT_SEND_FAILED',
    `${String(taskNames[index])}, which is sent directly, was not taken${others}: ${failed.error.message}`,
    { cause: failed.error, statusCode: 503 },
  );
}
