import { expect } from 'chai';
import { lighter, placeOf, toParcel } from '../../../../lib/broker/amqp/parcel';
import { createMessage } from './message';

describe('toParcel', () => {
  it('is the message in the words of amqplib', () => {
    const message = createMessage({
      route: { exchange: 'e', routingKey: 'k', queue: null },
      properties: {
        correlationId: 'c',
        replyTo: 'r',
        deliveryMode: 1,
        priority: 9,
        expiration: '60000',
        messageId: 'm',
        appId: 'a',
        type: 't',
        timestamp: 7,
      },
    });
    expect(toParcel(message, null)).to.deep.equal({
      exchange: 'e',
      routingKey: 'k',
      body: message.body,
      options: {
        mandatory: true,
        contentType: 'application/json',
        contentEncoding: 'utf-8',
        headers: { task: 'proj.tasks.add', id: 'id-1', retries: { '!': 'int', value: 200 } },
        correlationId: 'c',
        replyTo: 'r',
        deliveryMode: 1,
        priority: 9,
        expiration: '60000',
        messageId: 'm',
        appId: 'a',
        type: 't',
        timestamp: 7,
      },
      message,
    });
  });

  it('keeps an expiration of 0', () => {
    const { properties } = createMessage();
    const { options } = toParcel(createMessage({ properties: { ...properties, expiration: '0' } }), null);
    expect(options.expiration).to.equal('0');
    expect(toParcel(createMessage(), null).options).not.to.have.property('expiration');
  });

  it('takes the way round, and does not expire on it', () => {
    const detour = { exchange: 'celery_delayed_27', routingKey: '0.1.q', delayMs: 5000 };
    const { properties } = createMessage();
    const through = (expiration: string): ReturnType<typeof toParcel> =>
      toParcel(createMessage({ properties: { ...properties, expiration } }), detour);
    expect(through('5000')).to.include({ exchange: 'celery_delayed_27', routingKey: '0.1.q' });
    expect(through('5000').options.expiration).to.equal('5000');
    for (const early of ['4999', '0']) expect(through(early).options).not.to.have.property('expiration');
  });
});

describe('lighter', () => {
  const custom = { 'x-tenant': 'acme' };
  const trace = { traceparent: 't', baggage: 'b' };
  const log = { log_context: { n: 300 } };
  const protocol = { id: 'id-1', retries: 0 };
  const written = { id: 'id-1', retries: { '!': 'int', value: 0 } };
  const message = createMessage({
    headers: { ...protocol, ...trace, ...log, ...custom, headers: { ...trace, ...log, ...custom } },
    contextHeaders: ['traceparent', 'baggage', 'log_context'],
  });

  it('leaves out log context first, then the trace, and never what the call gave', () => {
    const full = toParcel(message, null);
    const withoutLog = lighter(full)!;
    expect(withoutLog.options.headers).to.deep.equal({
      ...written,
      ...trace,
      ...custom,
      headers: { ...trace, ...custom },
    });
    const bare = lighter(withoutLog)!;
    expect(bare.options.headers).to.deep.equal({ ...written, ...custom, headers: custom });
    expect(lighter(bare)).to.equal(null);
    expect(full.message).to.equal(message);
  });

  it('keeps everything else, and the types of numbers', () => {
    const full = toParcel(message, { exchange: 'd', routingKey: '1.q', delayMs: 1 });
    const { exchange, routingKey, body, options } = lighter(full)!;
    expect({ exchange, routingKey, body }).to.deep.equal({
      exchange: 'd',
      routingKey: '1.q',
      body: full.body,
    });
    expect({ ...options, headers: null }).to.deep.equal({ ...full.options, headers: null });
    expect(options.headers).to.deep.include({ retries: { '!': 'int', value: 0 } });
  });

  it('leaves out the trace at once if there is no log context', () => {
    const traced = createMessage({
      headers: { ...protocol, ...trace },
      contextHeaders: ['traceparent', 'baggage'],
    });
    expect(lighter(toParcel(traced, null))!.options.headers).to.deep.equal(written);
  });

  it('is not to be had without context', () => {
    expect(lighter(toParcel(createMessage({ headers: { log_context: 'of the call' } }), null))).to.equal(
      null,
    );
  });
});

describe('placeOf', () => {
  it('names a queue, or exchange and routing key', () => {
    expect(placeOf({ exchange: '', routingKey: 'q"' })).to.equal('for queue "q\\""');
    expect(placeOf({ exchange: 'e', routingKey: 'k' })).to.equal('to exchange "e" with routing key "k"');
  });
});
