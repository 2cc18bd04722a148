/** What one tick has done. */
export interface TickSummary {
  readonly claimed: number;
  readonly published: number;
  readonly failed: number;
  readonly deferred: number;
  readonly deadLettered: number;
  readonly released: number;
  readonly durationMs: number;
}

/** The data of a job: who runs it, and for what. */
export interface TickData {
  readonly relayId: string;
  readonly partition: number;
}
