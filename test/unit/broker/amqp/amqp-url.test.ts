import { expect } from 'chai';
import { amqpOptions } from '../../../../lib/broker/amqp/amqp-url';

describe('amqpOptions', () => {
  it('reads a URL with everything', () => {
    expect(amqpOptions('amqps://user:secret@rabbit.example:5673/jobs')).to.deep.equal({
      protocol: 'amqps',
      hostname: 'rabbit.example',
      port: 5673,
      username: 'user',
      password: 'secret',
      vhost: 'jobs',
      heartbeat: 30,
    });
  });

  it('leaves port and user to amqplib where the URL has none', () => {
    expect(amqpOptions('amqp://h')).to.deep.equal({
      protocol: 'amqp',
      hostname: 'h',
      vhost: '',
      heartbeat: 30,
    });
  });

  // amqplib decodes it once, and takes an empty one for `/`.
  const virtualHosts: [path: string, vhost: string][] = [
    ['', ''],
    ['/', ''],
    ['//', '/'],
    ['/%2F', '%2F'],
    ['/%2f', '%2f'],
    ['/jobs', 'jobs'],
    ['/a%2Fb', 'a%2Fb'],
    ['/a/b', 'a/b'],
    ['/caf%C3%A9', 'caf%C3%A9'],
    ['/a%2525', 'a%2525'],
  ];
  for (const [path, vhost] of virtualHosts) {
    it(`hands on the virtual host of ${path === '' ? 'no path' : path}`, () => {
      expect(amqpOptions(`amqp://h${path}`).vhost).to.equal(vhost);
      expect(amqpOptions(`amqp://u:p@h:1${path}?heartbeat=5`).vhost).to.equal(vhost);
    });
  }

  it('decodes user and password as UTF-8', () => {
    const credentials: [given: string, username: string, password: string][] = [
      ['user:pass', 'user', 'pass'],
      ['us%40er:p%3Aa%2Fs%25s', 'us@er', 'p:a/s%s'],
      ['caf%C3%A9:%F0%9F%98%80', 'café', '😀'],
      ['café:ключ', 'café', 'ключ'],
      ['user', 'user', ''],
      ['user:', 'user', ''],
      [':pass', '', 'pass'],
      ['a+b:c d', 'a+b', 'c d'],
    ];
    for (const [given, username, password] of credentials) {
      expect(amqpOptions(`amqp://${given}@h`), given).to.include({ username, password });
    }
  });

  it('takes the brackets off an IPv6 address', () => {
    expect(amqpOptions('amqp://[::1]:5672/v')).to.include({ hostname: '::1', port: 5672, vhost: 'v' });
    expect(amqpOptions('amqp://u:p@[2001:db8::7]')).to.include({ hostname: '2001:db8::7', username: 'u' });
  });

  it('reads numbers from the query', () => {
    expect(amqpOptions('amqp://h?heartbeat=0').heartbeat).to.equal(0);
    expect(amqpOptions('amqp://h/v?heartbeat=7&frameMax=8192&channelMax=10&other=1')).to.deep.equal({
      protocol: 'amqp',
      hostname: 'h',
      vhost: 'v',
      heartbeat: 7,
      frameMax: 8192,
      channelMax: 10,
    });
  });
});
