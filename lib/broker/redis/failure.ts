import { BrokerOutage, MessageFault } from '../broker-error';
import type { PublishOutcome } from '../port';

/** Why Redis did not do what it was asked. One object may stand for many messages. */
export type Failure = Exclude<PublishOutcome, { status: 'published' }>;

/** Codes of Redis's replies that say something of the server, not of the command. */
const OUTAGES = new Set([
  'READONLY',
  'OOM',
  'LOADING',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'NOREPLICAS',
  'MISCONF',
  'TRYAGAIN',
  'BUSY',
]);
const ACCESS = new Set(['NOAUTH', 'WRONGPASS', 'DENIED']);

/** Replies after which only a new connection can be better: a new master, a new login. */
const FINAL = new Set(['READONLY', 'NOAUTH']);

/** What was thrown although nothing should be: publish must not reject. */
export function asOutage(error: unknown): Failure {
  if (error instanceof BrokerOutage) return outage(error);
  return outage(new BrokerOutage(`Publishing to Redis failed: ${reasonOf(error)}`, error));
}

export const outage = (error: BrokerOutage): Failure => ({ status: 'outage', error });

export const fault = (...args: ConstructorParameters<typeof MessageFault>): Failure => ({
  status: 'fault',
  error: new MessageFault(...args),
});

/** Redis's code, the first word of an error that it replied; undefined if this is no reply. */
export function replyCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || error.name !== 'ReplyError') return undefined;
  return error.message.split(' ', 1)[0];
}

export const needsNewConnection = (error: unknown): boolean => FINAL.has(replyCode(error) ?? '');

/** What a reply means. @param what - what was asked for, such as `messages for list "celery"` */
export function toFailure(what: string, error: unknown): Failure {
  const code = replyCode(error) ?? '';
  const message = `Redis did not take ${what}: ${reasonOf(error)}`;
  if (OUTAGES.has(code)) return outage(new BrokerOutage(message, plain(error)));
  if (ACCESS.has(code)) {
    return outage(new BrokerOutage(message, plain(error), 'ERR_CELERY_OUTBOX_BROKER_ACCESS'));
  }
  return fault('ERR_CELERY_OUTBOX_MESSAGE_REFUSED', message, plain(error));
}

/** A refusal of the login or of the database. */
export function accessOutage(server: string, what: string, error: unknown): BrokerOutage {
  return new BrokerOutage(
    `${server} refused the ${what}: ${reasonOf(error)}`,
    plain(error),
    'ERR_CELERY_OUTBOX_BROKER_ACCESS',
  );
}

/** Whether an error that came while connecting is about who we are, not about the server's health. */
export const isAccess = (error: unknown): boolean => ACCESS.has(replyCode(error) ?? '');

/** What an error says, without what we had sent: Redis quotes the arguments of commands that it does not know. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Of a name with several addresses Node gives an AggregateError without a message.
  const text = error.message === '' ? ((error as NodeJS.ErrnoException).code ?? error.name) : error.message;
  return text.replace(/, with args beginning with:.*$/s, '');
}

// ioredis hangs the command with all its arguments on its errors: passwords, or a thousand messages.
function plain(error: unknown): Error {
  const copy = new Error(reasonOf(error));
  if (error instanceof Error) copy.name = error.name;
  return copy;
}
