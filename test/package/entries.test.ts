import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect } from 'chai';

interface Loaded {
  resources: string[];
  modules: string[];
  names: string[];
}

const ROOT = resolve(__dirname, '../..');

/** Loads an entry of the built package in a process of its own, which must end by itself. */
function load(entry: string): Loaded {
  const script = `
    void [process.stdin, process.stdout, process.stderr]; // pipes here, and opened by whoever looks first
    const before = process.getActiveResourcesInfo();
    const names = Object.keys(require(${JSON.stringify(entry)}));
    setImmediate(() => {
      const resources = process.getActiveResourcesInfo().filter((kind) => !before.includes(kind) && kind !== 'Immediate');
      const modules = Object.keys(require.cache).map((file) => file.replace(/.*node_modules[\\\\/]/, ''));
      process.stdout.write(JSON.stringify({ resources, modules, names }));
    });`;
  const output = execFileSync(process.execPath, ['-e', script], {
    cwd: ROOT,
    encoding: 'utf8',
    timeout: 15_000,
  });
  return JSON.parse(output) as Loaded;
}

describe('the built package', () => {
  before(() => {
    expect(existsSync(resolve(ROOT, 'dist/index.js')), 'dist is missing: npm run build').to.equal(true);
  });

  it('opens no handle when the web entry is loaded, and loads nothing that only others need', () => {
    const { resources, modules, names } = load('express-celery-outbox');
    expect(resources).to.deep.equal([]);
    for (const name of ['bull', 'express', 'express-async-context', '@sentry', '@opentelemetry', 'pg']) {
      expect(modules.filter((file) => file.split(/[\\/]/)[0] === name)).to.deep.equal([]);
    }
    expect(names).to.include.members([
      'createOutbox',
      'createOutboxContext',
      'CeleryOutboxError',
      'signature',
      'chain',
      'group',
      'chord',
      'withLogContext',
      'logContextFormat',
    ]);
  });

  it('has the relay in an entry of its own, which opens nothing by itself', () => {
    const { resources, names } = load('express-celery-outbox/relay');
    expect(resources).to.deep.equal([]);
    expect(names).to.have.members(['createRelay', 'CeleryOutboxError', 'ERROR_CODES']);
  });

  it('has a command, which says what it can do', () => {
    const command = resolve(ROOT, 'dist/cli/main.js');
    const help = execFileSync(process.execPath, [command, 'relay', '--help'], {
      encoding: 'utf8',
      timeout: 15_000,
    });
    expect(help)
      .to.match(/^Usage: celery-outbox relay/)
      .and.match(/--batch-size/);
  });

  it('has the migrations in an entry of their own', () => {
    const { resources, names } = load('express-celery-outbox/migrations');
    expect(resources).to.deep.equal([]);
    expect(names).to.deep.equal(['createMigrationSource']);
  });

  it('has the contract of brokers in an entry of its own, which needs neither a driver nor a test runner', () => {
    const { resources, modules, names } = load('express-celery-outbox/testing');
    expect(resources).to.deep.equal([]);
    expect(names).to.have.members(['brokerContract', 'BrokerOutage', 'MessageFault', 'PUBLISHED']);
    const own = /^\/|^[A-Z]:/;
    expect(modules.filter((file) => !own.test(file))).to.deep.equal([]);
  });

  it('exports nothing else', () => {
    expect(() => load('express-celery-outbox/dist/options')).to.throw(/ERR_PACKAGE_PATH_NOT_EXPORTED/);
  });
});
