export { createOutbox, type Outbox } from './create-outbox';
export { CeleryOutboxError, ERROR_CODES, type ErrorCode } from './errors';
export type { CeleryOptions, TransportOptions } from './celery-options';
export type { QueueOptions, RouteOptions } from './message/routing';
export type { MiddlewareOptions, OutboxOptions } from './options';
export type { Middleware } from './http/middleware';
export type { Next } from './http/request-transaction';
export {
  createOutboxContext,
  type OutboxContext,
  type OutboxContextManager,
  type Thunk,
} from './http/outbox-context';
export type { OutboxRequest } from './http/request-types';
export { currentLogContext, withLogContext, type LogContext } from './context/log-context';
export type { TraceHeaders, TraceSource } from './context/trace-headers';
export { logContextFormat } from './telemetry/winston-format';
export type { LogEvent, Logger } from './telemetry/logger';
export type {
  CreatedEvent,
  OutboxEventMap,
  OutboxEventName,
  OutboxEvents,
  OutboxListener,
} from './telemetry/events';
export type { OutboxCelery } from './outbox/outbox-celery';
export type { OutboxTask } from './outbox/outbox-task';
export type { ApplyOptions, SendOptions, TaskCall } from './outbox/send-options';
export type { OutboxResult } from './broker/result-backend';
export { BackendOutage, BrokerOutage, MessageFault } from './broker/broker-error';
export type { Broker, PublishOutcome } from './broker/port';
export type { CeleryMessage, MessageProperties, Route } from './message/celery-message';
export { signature, type Signature } from './message/signature';
export { chain } from './message/chain';
export { group, type Group } from './message/group';
export { chord, type Chord } from './message/chord';
export { chunks, starmap, xmap } from './message/mapping';
export type { Canvas } from './message/canvas';
export type { CanvasOptions, SignatureOptions, TaskOptions } from './message/task-options';
export type { TaskArgs, TaskKwargs, TaskName, TaskParameters, TaskRegistry } from './message/task-registry';
export type { Redact } from './message/redact';
