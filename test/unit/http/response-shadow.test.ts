import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { expect } from 'chai';
import { restoreMethods, shadow, snapshotMethods } from '../../../lib/http/response-shadow';

describe('the shadow over a response', () => {
  it('hides an inherited property, and gives it back', () => {
    const res = new ServerResponse(new IncomingMessage(new Socket()));
    const undo = shadow(res, 'writableFinished', 'hidden');
    expect(res.writableFinished).to.equal('hidden');
    undo();
    expect(res.writableFinished).to.equal(false);
    expect(Object.hasOwn(res, 'writableFinished')).to.equal(false);
  });

  it('hides a property of its own, once or more, and gives it back with its attributes', () => {
    const target = { name: 'own' };
    const before = Object.getOwnPropertyDescriptor(target, 'name');
    const undo = [shadow(target, 'name', 'one'), shadow(target, 'name', 'two')];
    expect(target.name).to.equal('two');
    while (undo.length > 0) undo.pop()?.();
    expect(Object.getOwnPropertyDescriptor(target, 'name')).to.deep.equal(before);
  });

  it('restores the methods that stood, and keeps what the application hung on the response', () => {
    const res = new ServerResponse(new IncomingMessage(new Socket()));
    const earlier = (): never => res as never;
    const later = (): never => res as never;
    res.end = earlier;
    const snapshot = snapshotMethods(res);
    Object.assign(res, { end: later, write: later, flush: later });
    restoreMethods(res, snapshot);
    expect(res).to.have.property('end', earlier);
    expect(Object.hasOwn(res, 'write')).to.equal(false);
    expect(res).to.have.property('flush', later);
  });
});
