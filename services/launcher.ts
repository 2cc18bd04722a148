import { CATALOG } from './catalog';
import { startDockerService } from './docker-service';
import type { EnvironmentPlan, Plan } from './resolve';
import type { Service } from './service';
import { startSupervisor, type Supervisor } from './supervisor-client';

/**
 * Carries out the plans of one call, and takes back what it started.
 */
export interface Launcher {
  readonly launch: (plan: Plan) => Promise<Service>;
  readonly close: () => Promise<void>;
}

export function createLauncher(durable: boolean): Launcher {
  const closers: (() => Promise<void>)[] = [];
  let supervisor: Supervisor | undefined;

  /** One supervisor serves all private services. */
  function sharedSupervisor(): Supervisor {
    if (!supervisor) closers.push((supervisor = startSupervisor()).close);
    return supervisor;
  }

  return {
    async launch(plan) {
      if (plan.origin === 'environment') return environmentService(plan);
      if (plan.origin === 'private') return sharedSupervisor().create(plan, durable);
      const { service, remove } = await startDockerService(plan.name, durable);
      closers.push(remove);
      return service;
    },
    async close() {
      const outcomes = await Promise.allSettled(closers.splice(0).map((closer) => closer()));
      for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
    },
  };
}

function environmentService({ name, origin, url }: EnvironmentPlan): Service {
  const refuse = (): Promise<never> =>
    Promise.reject(
      new Error(`${name} was given by ${CATALOG[name].variable}: it is not ours to stop or start.`),
    );
  return { name, origin, url, start: refuse, stop: refuse, kill: refuse };
}
