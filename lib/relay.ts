export { createRelay } from './relay/create-relay';
export type { Relay, RelayStatus } from './relay/relay';
export type { RelayOptions } from './relay/relay-options';
export type { RetryPolicy } from './relay/retry-policy';
export type { PassSummary } from './relay/outcome';
export type { Pause } from './store/pauses';
export { CeleryOutboxError, ERROR_CODES, type ErrorCode } from './errors';
