import type { PassSummary } from '../outcome';

/** What one tick has done. */
export interface TickSummary extends PassSummary {
  readonly durationMs: number;
}

/** The data of a job: who runs it, and for what. */
export interface TickData {
  readonly relayId: string;
  readonly partition: number;
}
