import { expect } from 'chai';
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

  it('has a table of codes that share one prefix', () => {
    for (const code of Object.keys(ERROR_CODES)) expect(code).to.match(/^ERR_CELERY_OUTBOX_[A-Z_]+$/);
  });
});
