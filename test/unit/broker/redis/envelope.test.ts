import { expect } from 'chai';
import { Envelope } from '../../../../lib/broker/redis/envelope';
import { createMessage } from '../../../support/redis-broker';

const parse = (text: string): Record<string, Record<string, unknown>> =>
  JSON.parse(text) as Record<string, Record<string, unknown>>;

describe('Envelope', () => {
  it('leaves out what is not set and keeps what is', () => {
    const bare = parse(new Envelope(createMessage({ taskId: 'id-1' })).seal())['properties'];
    expect(Object.keys(bare!)).to.deep.equal([
      'correlation_id',
      'delivery_mode',
      'priority',
      'delivery_info',
      'body_encoding',
      'delivery_tag',
    ]);
    const full = {
      replyTo: 'r"1',
      expiration: '1500',
      messageId: 'm\n1',
      appId: 'a',
      type: 't\u{1f600}',
      timestamp: 1936854489,
      priority: 200,
      deliveryMode: 1,
    } as const;
    expect(parse(new Envelope(createMessage({ properties: full })).seal())['properties']).to.include({
      reply_to: 'r"1',
      expiration: '1500',
      message_id: 'm\n1',
      app_id: 'a',
      type: 't\u{1f600}',
      timestamp: 1936854489,
      priority: 200,
      delivery_mode: 1,
    });
  });

  it('has another delivery tag in each copy, and else the same', () => {
    const envelope = new Envelope(createMessage());
    const [one, other] = [parse(envelope.seal()), parse(envelope.seal())];
    expect(one['properties']!['delivery_tag']).to.not.equal(other['properties']!['delivery_tag']);
    other['properties']!['delivery_tag'] = one['properties']!['delivery_tag'];
    expect(one).to.deep.equal(other);
  });

  it('keeps integers of any size in headers', () => {
    const text = new Envelope(createMessage({ headers: { n: 12345678901234567890n, m: 1 } })).seal();
    expect(text).to.include('"n":12345678901234567890,"m":1}');
  });

  it('refuses headers that are not JSON', () => {
    const headers: Record<string, never> = {};
    Object.assign(headers, { headers, n: 1n });
    expect(() => new Envelope(createMessage({ headers }))).to.throw('headers.headers');
  });
});
