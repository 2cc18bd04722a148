import { CeleryOutboxError, type ErrorCode } from '../errors';

type OutageCode = Extract<ErrorCode, 'ERR_CELERY_OUTBOX_BROKER_OUTAGE' | 'ERR_CELERY_OUTBOX_BROKER_ACCESS'>;
type FaultCode = Extract<
  ErrorCode,
  'ERR_CELERY_OUTBOX_UNROUTABLE' | 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED' | 'ERR_CELERY_OUTBOX_MESSAGE_INVALID'
>;

/**
 * The broker cannot take messages now: unreachable, closed, blocked, full, silent, or it does not let us in. No
 * message is to blame. Whether one that was on its way arrived is unknown.
 */
export class BrokerOutage extends CeleryOutboxError {
  /** @internal */
  static override readonly brand: symbol = Symbol.for('express-celery-outbox.outage');

  constructor(message: string, cause?: unknown, code: OutageCode = 'ERR_CELERY_OUTBOX_BROKER_OUTAGE') {
    super(code, message, { ...(cause !== undefined && { cause }), statusCode: 503 });
    Object.defineProperty(this, BrokerOutage.brand, { value: true });
  }
}

/**
 * The result backend cannot be asked or told anything now, or does not let us in. It says nothing of the broker: what
 * needs no result backend still goes there.
 */
export class BackendOutage extends CeleryOutboxError {
  /** @internal */
  static override readonly brand: symbol = Symbol.for('express-celery-outbox.backend-outage');

  constructor(message: string, cause?: unknown) {
    super('ERR_CELERY_OUTBOX_BACKEND_OUTAGE', message, {
      ...(cause !== undefined && { cause }),
      statusCode: 503,
    });
    Object.defineProperty(this, BackendOutage.brand, { value: true });
  }
}

/** The broker is there and will not take this one message: unroutable, refused, or not one that it can carry. */
export class MessageFault extends CeleryOutboxError {
  /** @internal */
  static override readonly brand: symbol = Symbol.for('express-celery-outbox.fault');

  constructor(code: FaultCode, message: string, cause?: unknown) {
    super(code, message, { ...(cause !== undefined && { cause }), statusCode: 502 });
    Object.defineProperty(this, MessageFault.brand, { value: true });
  }
}
