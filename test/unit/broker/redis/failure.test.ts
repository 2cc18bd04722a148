import { expect } from 'chai';
import { ReplyError } from 'ioredis';
import {
  asOutage,
  needsNewConnection,
  reasonOf,
  replyCode,
  toFailure,
} from '../../../../lib/broker/redis/failure';

const reply = (message: string): Error =>
  Object.assign(new (ReplyError as new (message: string) => Error)(message), {
    command: { name: 'lpush', args: ['celery', 'secret'] },
  });

describe('what Redis replies', () => {
  const cases: [string, 'outage' | 'fault', string][] = [
    ...[
      ...['READONLY You can', 'OOM command not', 'LOADING Redis', 'MASTERDOWN Link', 'CLUSTERDOWN Hash'],
      ...['NOREPLICAS Not enough', 'MISCONF Redis is', 'TRYAGAIN Multiple', 'BUSY Redis is busy'],
    ].map((text): [string, 'outage', string] => [text, 'outage', 'ERR_CELERY_OUTBOX_BROKER_OUTAGE']),
    ['NOAUTH Authentication required.', 'outage', 'ERR_CELERY_OUTBOX_BROKER_ACCESS'],
    ['WRONGPASS invalid username', 'outage', 'ERR_CELERY_OUTBOX_BROKER_ACCESS'],
    ['WRONGTYPE Operation against', 'fault', 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED'],
    ['NOPERM this user has no', 'fault', 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED'],
    ['ERR something with OOM in it', 'fault', 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED'],
    ['READONLYISH no such code', 'fault', 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED'],
  ];
  for (const [text, status, code] of cases) {
    it(`${text.split(' ', 1)[0]!} is ${status} ${code}`, () => {
      const failure = toFailure('messages for list "q"', reply(text));
      expect(failure.status).to.equal(status);
      expect(failure.error.code).to.equal(code);
      expect(failure.error.message).to.equal(`Redis did not take messages for list "q": ${text}`);
    });
  }

  it('does not carry what was sent', () => {
    const unknown = "ERR unknown command 'LPUSH', with args beginning with: 'celery' 'secret' ";
    const { error } = toFailure('messages', reply(unknown));
    expect(error.message).to.equal("Redis did not take messages: ERR unknown command 'LPUSH'");
    expect(JSON.stringify([error, error.cause, (error.cause as Error).stack])).to.not.include('secret');
    expect(error.cause).to.not.have.property('command');
  });

  it('has a code only if it is a reply', () => {
    expect(replyCode(reply('OOM x'))).to.equal('OOM');
    expect(replyCode(new Error('OOM x'))).to.equal(undefined);
    expect(replyCode('OOM x')).to.equal(undefined);
  });

  it('needs a new connection when the master or the login has changed', () => {
    expect(needsNewConnection(reply('READONLY x'))).to.equal(true);
    expect(needsNewConnection(reply('NOAUTH x'))).to.equal(true);
    expect(needsNewConnection(reply('OOM x'))).to.equal(false);
  });
});

describe('reasonOf', () => {
  it('finds words for errors without a message', () => {
    const refused = Object.assign(new AggregateError([new Error('a')]), { code: 'ECONNREFUSED' });
    expect(reasonOf(refused)).to.equal('ECONNREFUSED');
    expect(reasonOf(new AggregateError([]))).to.equal('AggregateError');
    expect(reasonOf('why')).to.equal('why');
  });
});

describe('asOutage', () => {
  it('is an outage whatever was thrown', () => {
    const { status, error } = asOutage(new TypeError('bug'));
    expect(status).to.equal('outage');
    expect(error.code).to.equal('ERR_CELERY_OUTBOX_BROKER_OUTAGE');
    expect(error.message).to.include('bug');
  });
});
