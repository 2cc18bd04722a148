import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Platform } from '../../services/platform';
import { resolveServices } from '../../services/resolve';
import { ALL_INSTALLED, barePlatform, NOTHING_INSTALLED } from './fixtures/platforms';

describe('installation by root on Debian', () => {
  let directory: string;
  let policyFile: string;
  let commands: string[];
  let policies: (string | undefined)[];

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'outbox-install-test-'));
    policyFile = join(directory, 'policy-rc.d');
    commands = [];
    policies = [];
  });
  afterEach(() => {
    rmSync(directory, { recursive: true });
  });

  /** A machine that has Redis, and the rest after an installation that fails or succeeds. */
  function debian(fails = false): Platform {
    const find = { ...NOTHING_INSTALLED, redis: ALL_INSTALLED.redis };
    return barePlatform({
      isRoot: true,
      hasApt: true,
      policyFile,
      find,
      run(command, args, environment) {
        commands.push(
          [`DEBIAN_FRONTEND=${environment['DEBIAN_FRONTEND'] ?? ''}`, command, ...args].join(' '),
        );
        policies.push(existsSync(policyFile) ? readFileSync(policyFile, 'utf8') : undefined);
        if (fails) return Promise.reject(new Error('no network'));
        if (args[0] === 'install') Object.assign(find, ALL_INSTALLED);
        return Promise.resolve();
      },
    });
  }

  it('updates, then installs exactly what is missing', async () => {
    const plans = await resolveServices(['postgres', 'redis', 'rabbitmq'], debian());
    expect(plans.map(({ origin }) => origin)).to.deep.equal(['private', 'private', 'private']);
    expect(commands).to.deep.equal([
      'DEBIAN_FRONTEND=noninteractive apt-get update',
      'DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql rabbitmq-server',
    ]);
  });

  it('forbids daemons for its time', async () => {
    await resolveServices(['postgres'], debian());
    expect(existsSync(policyFile)).to.equal(false);
    const policy = policies[1] ?? '';
    writeFileSync(policyFile, policy, { mode: 0o755 });
    expect(exitCode(policyFile)).to.equal(101);
    // A policy left by an installation that was killed: no process has this number.
    writeFileSync(policyFile, policy.replace(String(process.pid), '4194305'));
    expect(exitCode(policyFile)).to.equal(0);
    await resolveServices(['postgres'], debian());
    expect(policies.at(-1)).to.equal(policy);
    expect(existsSync(policyFile)).to.equal(false);
  });

  it('allows them again when it fails, and says why', async () => {
    expect(await resolveServices(['postgres'], debian(true)).catch(String)).to.equal('Error: no network');
    expect(policies[0]).to.be.a('string');
    expect(existsSync(policyFile)).to.equal(false);
  });

  it('leaves the policy of the machine alone', async () => {
    writeFileSync(policyFile, '#!/bin/sh\nexit 101\n', { mode: 0o700 });
    await resolveServices(['postgres'], debian());
    expect(policies).to.deep.equal(['#!/bin/sh\nexit 101\n', '#!/bin/sh\nexit 101\n']);
    expect(statSync(policyFile).mode & 0o777).to.equal(0o700);
  });
});

function exitCode(script: string): number {
  try {
    execFileSync(script);
    return 0;
  } catch (error) {
    return (error as { status: number }).status;
  }
}
