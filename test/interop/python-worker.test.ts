import { argumentCases } from './cases/arguments';
import { callbackCases } from './cases/callbacks';
import { chainCases } from './cases/chains';
import { chordCases } from './cases/chords';
import { groupCases } from './cases/groups';
import { headerCases } from './cases/headers';
import { nestedCases } from './cases/nested';
import { outboxCases } from './cases/outbox';
import { requestCases } from './cases/request';
import { routingCases } from './cases/routing';
import { timeCases } from './cases/time';
import { BROKERS, useInterop } from './interop';

for (const broker of BROKERS) {
  // One worker serves all cases of a broker.
  describe(`a Python worker on ${broker}`, () => {
    const interop = useInterop(broker);
    describe('gets arguments', () => argumentCases(interop));
    describe('shows a task', () => requestCases(interop));
    describe('shows headers', () => headerCases(interop));
    describe('keeps to the time of a task', () => timeCases(interop));
    describe('is reached', () => routingCases(interop));
    describe('runs callbacks', () => callbackCases(interop));
    describe('runs chains', () => chainCases(interop));
    describe('runs groups', () => groupCases(interop));
    describe('runs chords', () => chordCases(interop));
    describe('runs nested canvases', () => nestedCases(interop));
    describe('answers the outbox', () => outboxCases(interop));
  });
}
