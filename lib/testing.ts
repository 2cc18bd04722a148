export { brokerContract, type ContractCheck } from './testing/broker-contract';
export type { BrokerHarness, BrokerTimeouts, QueuedMessage } from './testing/broker-harness';
export { PUBLISHED, type Broker, type PublishOutcome } from './broker/port';
export { BrokerOutage, MessageFault } from './broker/broker-error';
export type { CeleryMessage, MessageProperties, Route } from './message/celery-message';
export type { JsonValue } from './message/json-text';
