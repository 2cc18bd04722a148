/** A task as it was stored: the columns of its row that make the message. JSON columns are text, as they were written. */
export interface StoredTask {
  readonly taskId: string;
  readonly taskName: string;
  readonly args: string;
  readonly kwargs: string;
  readonly options: string;
  readonly redactedArgs: string | null;
  readonly redactedKwargs: string | null;
  readonly traceHeaders: string | null;
  readonly logContext: string | null;
}
