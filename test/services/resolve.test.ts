import { expect } from 'chai';
import { startServices } from '../../services';
import { resolveServices } from '../../services/resolve';
import { SERVICE_NAMES } from '../../services/service';
import { ALL_INSTALLED, barePlatform } from './fixtures/platforms';

const DATABASE_URL = 'postgres://somebody@db.example/theirs?sslmode=require';

describe('the choice of where a service comes from', () => {
  it('is the environment before all else', async () => {
    const environment = {
      DATABASE_URL,
      REDIS_URL: 'redis://cache.example',
      AMQP_URL: 'amqp://broker.example',
    };
    const platform = barePlatform({
      environment,
      find: ALL_INSTALLED,
      dockerAnswers: () => Promise.reject(new Error('must not be asked')),
    });
    expect(await resolveServices(SERVICE_NAMES, platform)).to.deep.equal([
      { origin: 'environment', name: 'postgres', url: DATABASE_URL },
      { origin: 'environment', name: 'redis', url: 'redis://cache.example' },
      { origin: 'environment', name: 'rabbitmq', url: 'amqp://broker.example' },
    ]);
  });

  it('is Docker for the others, if an engine answers', async () => {
    const platform = barePlatform({
      environment: { DATABASE_URL, REDIS_URL: '' },
      find: ALL_INSTALLED,
      dockerAnswers: () => Promise.resolve(true),
    });
    expect(await resolveServices(['redis', 'postgres'], platform)).to.have.deep.members([
      { origin: 'environment', name: 'postgres', url: DATABASE_URL },
      { origin: 'docker', name: 'redis' },
    ]);
  });

  it('is what is installed, without Docker', async () => {
    const platform = barePlatform({ find: ALL_INSTALLED });
    expect(await resolveServices(['rabbitmq'], platform)).to.deep.equal([
      { origin: 'private', name: 'rabbitmq', binaries: ALL_INSTALLED.rabbitmq() },
    ]);
  });
});

describe('a machine that has nothing', () => {
  it('names one command for all that is missing, and only that', async () => {
    const platform = barePlatform({
      hasApt: true,
      find: { ...barePlatform().find, redis: ALL_INSTALLED.redis },
    });
    expect(await resolveServices(SERVICE_NAMES, platform).catch(String)).to.match(
      /^Error: No postgres, rabbitmq: .* Run: sudo apt-get install -y postgresql rabbitmq-server$/,
    );
  });

  it('asks for URLs where there is no apt-get', async () => {
    const platform = barePlatform({ isRoot: true });
    expect(await resolveServices(['postgres', 'redis'], platform).catch(String)).to.match(
      / Run: export DATABASE_URL=postgres:\/\/user:password@host:5432\/database REDIS_URL=redis:\/\/host:6379$/,
    );
  });
});

describe('a service of the environment', () => {
  it('is used as it is, and is never stopped', async () => {
    const services = await startServices(['postgres'], {
      platform: barePlatform({ environment: { DATABASE_URL } }),
    });
    const { postgres } = services;
    expect(postgres).to.include({ name: 'postgres', origin: 'environment', url: DATABASE_URL });
    for (const action of ['start', 'stop', 'kill'] as const) {
      expect(await postgres[action]().catch(String)).to.match(/given by DATABASE_URL: it is not ours/);
    }
    await services.close();
  });
});
