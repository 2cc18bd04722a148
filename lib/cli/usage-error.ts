/** What the caller has to change; printed without a stack. */
export class UsageError extends Error {
  override get name(): string {
    return 'UsageError';
  }
}
