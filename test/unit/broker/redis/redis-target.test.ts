import { expect } from 'chai';
import { redisTarget, type RedisTarget } from '../../../../lib/broker/redis/redis-target';

const target = (url: string, options = {}, ms = 6000): RedisTarget => redisTarget(url, options, ms);

describe('redisTarget', () => {
  it('reads host, port, credentials and database from the URL', () => {
    const { driver, login, name } = target('redis://us%40er:p%23ss%2F%3A@cache.example:6380/12');
    expect(driver).to.include({ host: 'cache.example', port: 6380 });
    expect(login).to.include({ username: 'us@er', password: 'p#ss/:', db: 12 });
    expect(name).to.equal('Redis at cache.example:6380');
    expect(driver).to.not.have.any.keys('tls', 'username', 'password', 'db', 'connectionName');
  });

  it('has defaults for what the URL does not say', () => {
    const { driver, login } = target('redis://');
    expect(driver).to.include({ host: 'localhost', port: 6379 });
    expect(login).to.deep.equal({
      username: undefined,
      password: undefined,
      db: 0,
      connectionName: undefined,
    });
  });

  it('reads IPv6 addresses, passwords without user, and a percent sign', () => {
    expect(target('redis://[::1]:6379').driver).to.include({ host: '::1' });
    expect(target('redis://:secret@h').login).to.include({ username: undefined, password: 'secret' });
    expect(target('redis://:100%25@h').login).to.include({ password: '100%' });
  });

  it('has no database that is not a number', () => {
    expect(target('redis://h/x1').login.db).to.be.NaN;
    expect(target('redis://h/-1').login.db).to.be.NaN;
    expect(target('redis://h/').login.db).to.equal(0);
  });

  it("takes ioredis's options for what the URL does not say", () => {
    const options = { username: 'u', password: 'p', db: 4, connectionName: 'c', keepAlive: 5, family: 6 };
    const own = target('redis://h', options);
    expect(own.login).to.deep.equal({ username: 'u', password: 'p', db: 4, connectionName: 'c' });
    expect(own.driver).to.include({ keepAlive: 5, family: 6 });
    expect(target('redis://x:y@h/2', options).login).to.include({ username: 'x', password: 'y', db: 2 });
  });

  it('never lets options make ioredis send something later or again', () => {
    const { driver } = target('redis://h', {
      enableOfflineQueue: true,
      autoResendUnfulfilledCommands: true,
      maxRetriesPerRequest: 20,
      retryStrategy: () => 1,
      reconnectOnError: () => 2,
      lazyConnect: false,
      enableAutoPipelining: true,
      commandTimeout: 1,
      connectTimeout: 1e6,
    });
    expect(driver).to.include({
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      retryStrategy: null,
      reconnectOnError: null,
      lazyConnect: true,
      enableAutoPipelining: false,
      commandTimeout: undefined,
      connectTimeout: 6000,
    });
  });

  it('speaks TLS for rediss, with the name of the host', () => {
    expect(target('rediss://h.example').driver.tls).to.deep.equal({ servername: 'h.example' });
    expect(target('rediss://10.0.0.1').driver.tls).to.deep.equal({});
    const tls = { ca: 'x', servername: 'other' };
    expect(target('rediss://h', { tls }).driver.tls).to.deep.equal(tls);
    expect(target('redis://h', { tls: { ca: 'x' } }).driver.tls).to.deep.equal({ servername: 'h', ca: 'x' });
  });

  it("knows Celery's ssl_cert_reqs", () => {
    const verifies = (query: string): unknown =>
      target(`rediss://10.0.0.1/0?${query}`).driver.tls?.rejectUnauthorized;
    expect(verifies('ssl_cert_reqs=CERT_NONE')).to.equal(false);
    expect(verifies('ssl_cert_reqs=none')).to.equal(false);
    for (const value of ['CERT_REQUIRED', 'CERT_OPTIONAL', 'optional', 'required', 'NONE_AT_ALL', '']) {
      expect(verifies(`ssl_cert_reqs=${value}`), value).to.equal(undefined);
    }
    expect(verifies('')).to.equal(undefined);
  });

  it('with Sentinels uses no host of the URL, but its credentials, database and TLS', () => {
    const sentinels = [{ host: 's1' }, { host: 's2' }];
    const { driver, login, name } = target('rediss://:pw@ignored/3', { sentinels, name: 'm' });
    expect(driver).to.not.have.any.keys('host', 'port');
    expect(driver).to.include({ sentinels, name: 'm', enableTLSForSentinelMode: true });
    expect(driver, 'each has its share').to.include({ connectTimeout: 2000, sentinelCommandTimeout: 2000 });
    expect(login).to.include({ password: 'pw', db: 3 });
    expect(name).to.equal('Redis master m');
  });
});
