import { parseRelayOptions, type RelayOptions } from './relay-options';
import { Relay } from './relay';

/**
 * The process that hands stored tasks to the broker. Opens no connection before it is used.
 *
 * @throws ERR_CELERY_OUTBOX_INVALID_OPTION, ERR_CELERY_OUTBOX_UNKNOWN_OPTION
 */
export function createRelay(options: RelayOptions): Relay {
  return new Relay(parseRelayOptions(options));
}
