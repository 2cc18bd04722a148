import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { expect } from 'chai';
import { startServices } from '../../services';
import { answers } from '../../services/answers';
import { startLocated } from './fixtures/own-runs';
import { canRunPrivately, privatePlatform } from './fixtures/platforms';
import { remainsOf, startRun, type StartedRun } from './fixtures/started-run';

const GONE_DEADLINE_MS = 10_000;
/** Run, supervisor, redis, epmd, beam with two helpers and more, the postmaster with its five and more. */
const LEAST_PROCESSES = 12;
/** The same without run and supervisor. */
const LEAST_ORPHANS = 10;

if (canRunPrivately()) {
  describe('a run that did not close its services', function () {
    this.timeout(40_000);
    let run: StartedRun | undefined;

    afterEach(() => {
      run?.child.kill('SIGKILL');
    });

    it('leaves nothing when it is killed', async () => {
      run = await startRun();
      expect(run.processes.length).to.be.at.least(LEAST_PROCESSES);
      run.child.kill('SIGKILL');
      expect(await remainsOf(run, GONE_DEADLINE_MS)).to.deep.equal([]);
    });

    it('ends by itself when it has nothing more to do, and leaves nothing', async () => {
      run = await startRun();
      const exited = once(run.child, 'exit', { signal: AbortSignal.timeout(GONE_DEADLINE_MS) });
      run.child.stdin.end();
      await exited;
      expect(run.child.exitCode).to.equal(0);
      expect(await remainsOf(run, GONE_DEADLINE_MS)).to.deep.equal([]);
    });

    it('leaves nothing when its supervisor is told to end', async () => {
      run = await startRun();
      process.kill(run.supervisor.pid, 'SIGTERM');
      expect(await remainsOf(withoutRun(run), GONE_DEADLINE_MS)).to.deep.equal([]);
    });

    it('leaves nothing when its supervisor is killed and it closes', async () => {
      const { services, owner, directory } = await startLocated(['redis']);
      process.kill(owner.pid, 'SIGKILL');
      await services.close();
      expect(existsSync(directory)).to.equal(false);
      expect(await answers.redis(services.redis.url)).to.equal(false);
    });

    it('leaves to the next run what its killed supervisor could not end', async () => {
      run = await startRun();
      process.kill(run.supervisor.pid, 'SIGKILL');
      expect(await remainsOf(withoutRun(run), 0)).to.have.length.at.least(LEAST_ORPHANS);
      const next = await startServices(['redis'], { platform: privatePlatform() });
      try {
        expect(await remainsOf(withoutRun(run), 0)).to.deep.equal([]);
      } finally {
        await next.close();
      }
    });
  });
}

/** The run itself may live on; only what it started has to go. */
function withoutRun(run: StartedRun): StartedRun {
  return { ...run, processes: run.processes.filter(({ pid }) => pid !== run.child.pid) };
}
