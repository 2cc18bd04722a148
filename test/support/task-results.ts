import Redis from 'ioredis';
import { eventually } from './eventually';

const TIMEOUT_MS = 15_000;
const FINAL = new Set(['SUCCESS', 'FAILURE', 'REVOKED']);

/** How a task ended, as Celery's Redis backend keeps it. */
export interface TaskOutcome {
  readonly status: string;
  readonly result: unknown;
  readonly traceback: string | null;
}

/** Reads from Redis what workers wrote there, and waits for what they will write. */
export class TaskResults {
  readonly #redis: Redis;

  constructor(url: string) {
    this.#redis = new Redis(url);
  }

  /** Waits until a task has ended. */
  async outcome(taskId: string): Promise<TaskOutcome> {
    return eventually(async () => {
      const outcome = await this.peek(taskId);
      if (outcome !== null && FINAL.has(outcome.status)) return outcome;
      throw new Error(`task ${taskId} has not ended: ${outcome?.status ?? 'there is nothing of it'}`);
    }, TIMEOUT_MS);
  }

  /** What is there now. */
  async peek(taskId: string): Promise<TaskOutcome | null> {
    const text = await this.#redis.get(`celery-task-meta-${taskId}`);
    return text === null ? null : (JSON.parse(text) as TaskOutcome);
  }

  /** Waits until a task has succeeded, and fails if it does not. */
  async result(taskId: string): Promise<unknown> {
    const { status, result, traceback } = await this.outcome(taskId);
    if (status === 'SUCCESS') return result;
    throw new Error(`task ${taskId} ended as ${status}: ${traceback ?? JSON.stringify(result)}`);
  }

  /** Waits until tasks have noted this many values under a key; in the order noted. */
  async notes(key: string, count: number): Promise<unknown[]> {
    return eventually(async () => {
      const items = await this.#redis.lrange(key, 0, -1);
      if (items.length < count)
        throw new Error(`${String(items.length)} of ${String(count)} notes under ${key}`);
      return items.map((item) => JSON.parse(item) as unknown);
    }, TIMEOUT_MS);
  }

  close(): void {
    this.#redis.disconnect();
  }
}
