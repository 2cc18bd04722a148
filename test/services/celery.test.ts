import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { celeryPython, findCelery } from '../../services/celery';
import { barePlatform } from './fixtures/platforms';

describe('a Python with Celery', () => {
  const nowhere = (): Promise<boolean> => Promise.resolve(false);

  it('is found on this machine', async () => {
    expect(await celeryPython()).to.match(/python3$/);
  });

  it("is Debian's own, if the first of the PATH has none", async () => {
    const python = await findCelery(barePlatform(), (path) => Promise.resolve(path.startsWith('/')));
    expect(python).to.equal('/usr/bin/python3');
  });

  it('is installed by root on Debian', async () => {
    const commands: string[] = [];
    const platform = barePlatform({
      isRoot: true,
      hasApt: true,
      policyFile: join(tmpdir(), `outbox-policy-${String(process.pid)}`),
      run(command, args) {
        commands.push([command, ...args].join(' '));
        return Promise.resolve();
      },
    });
    const python = await findCelery(platform, () => Promise.resolve(commands.length > 0));
    expect(python).to.equal('python3');
    expect(commands.at(-1)).to.match(/^apt-get install -y .*python3-celery python3-redis$/);
  });

  it('is asked for with the one command that helps', async () => {
    const reason = (platform: Parameters<typeof barePlatform>[0]): Promise<string> =>
      findCelery(barePlatform(platform), nowhere).catch(String);
    expect(await reason({ hasApt: true })).to.match(
      /Run: sudo apt-get install -y python3-celery python3-redis$/,
    );
    expect(await reason({})).to.match(/Run: pip install 'celery\[redis\]'$/);
  });
});
