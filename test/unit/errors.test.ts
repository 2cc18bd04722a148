import { expect } from 'chai';
import { BackendOutage, BrokerOutage, MessageFault } from '../../lib/broker/broker-error';
import { CeleryOutboxError, ERROR_CODES } from '../../lib/errors';

describe('CeleryOutboxError', () => {
  it('carries code, cause and the status that Express reads', () => {
    const cause = new Error('why');
    const error = new CeleryOutboxError('ERR_CELERY_OUTBOX_TIMEOUT', 'too slow', { cause, statusCode: 503 });
    expect(error).to.include({ code: 'ERR_CELERY_OUTBOX_TIMEOUT', message: 'too slow', status: 503, cause });
    expect(error.name).to.equal('CeleryOutboxError');
    expect(new CeleryOutboxError('ERR_CELERY_OUTBOX_CLOSED', 'x').statusCode).to.equal(500);
  });

  it('is recognised across two copies of the package, and nothing else is', () => {
    const fromAnotherCopy = Object.assign(new Error('x'), {
      [Symbol.for('express-celery-outbox.error')]: true,
    });
    expect(fromAnotherCopy).to.be.instanceOf(CeleryOutboxError);
    for (const other of [new Error('x'), null, undefined, 'x', {}]) {
      expect(other instanceof CeleryOutboxError).to.equal(false);
    }
  });

  it('tells outages of the broker, outages of the result backend and faults of messages apart', () => {
    const errors = [
      new BrokerOutage('x'),
      new BackendOutage('x'),
      new MessageFault('ERR_CELERY_OUTBOX_UNROUTABLE', 'x'),
    ];
    const kinds = [BrokerOutage, BackendOutage, MessageFault];
    for (const [index, error] of errors.entries()) {
      expect(error).to.be.instanceOf(CeleryOutboxError);
      expect(kinds.map((kind) => error instanceof kind)).to.deep.equal(kinds.map((_, at) => at === index));
    }
  });

  it('has a table of codes that share one prefix', () => {
    for (const code of Object.keys(ERROR_CODES)) expect(code).to.match(/^ERR_CELERY_OUTBOX_[A-Z_]+$/);
  });
});
