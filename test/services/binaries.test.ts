import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import { createBinaryFinders, type BinaryFinders } from '../../services/binaries';

describe('the search for binaries', () => {
  let root: string;
  let find: BinaryFinders;

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'outbox-binaries-test-'));
    find = createBinaryFinders(`${join(root, 'path/a')}::${join(root, 'path/b')}`, root);
  });
  afterEach(() => {
    rmSync(root, { recursive: true });
  });

  function install(path: string, mode = 0o755): string {
    const full = join(root, path);
    mkdirSync(dirname(full), { recursive: true });
    writeFileSync(full, '', { mode });
    return full;
  }

  it('finds nothing on a bare machine', () => {
    expect([find.postgres(), find.redis(), find.rabbitmq()]).to.deep.equal([undefined, undefined, undefined]);
  });

  it('takes PostgreSQL from the PATH only with its own initdb, else the highest version of Debian', () => {
    for (const version of ['9.6', '15', '16']) {
      install(`usr/lib/postgresql/${version}/bin/initdb`);
      install(`usr/lib/postgresql/${version}/bin/postgres`);
    }
    install('usr/lib/postgresql/17/bin/postgres');
    install('path/a/postgres');
    install('path/a/initdb', 0o644);
    const highest = join(root, 'usr/lib/postgresql/16/bin');
    expect(find.postgres()).to.deep.equal({
      initdb: join(highest, 'initdb'),
      postgres: join(highest, 'postgres'),
    });
    const onPath = { initdb: install('path/b/initdb'), postgres: install('path/b/postgres') };
    expect(find.postgres()).to.deep.equal(onPath);
  });

  it("passes over Debian's wrapper of rabbitmq-server", () => {
    install('path/a/rabbitmq-server');
    const epmd = install('path/a/epmd');
    expect(find.rabbitmq()).to.equal(undefined);
    const server = install('usr/lib/rabbitmq/bin/rabbitmq-server');
    install('usr/lib/rabbitmq/bin/rabbitmq-env');
    expect(find.rabbitmq()).to.deep.equal({ server, epmd });
  });

  it('finds Redis also when the PATH does not name its directory', () => {
    const server = install('usr/bin/redis-server');
    expect(find.redis()).to.deep.equal({ server });
  });
});
