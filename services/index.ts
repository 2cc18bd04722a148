import { createLauncher } from './launcher';
import { hostPlatform, type Platform } from './platform';
import { resolveServices } from './resolve';
import type { Service, ServiceName, Services } from './service';

export type { Service, ServiceName, ServiceOrigin, Services } from './service';

export interface StartOptions {
  /**
   * Whether PostgreSQL keeps its promises through a crash of the machine. Only a benchmark needs that.
   *
   * @defaultValue false
   */
  readonly durable?: boolean;
  /**
   * @defaultValue this machine
   */
  readonly platform?: Platform;
}

/**
 * Gets the services, side by side, and resolves when all of them answer. For each in this order: the URL in
 * DATABASE_URL, REDIS_URL or AMQP_URL, taken as it is; a container, if a Docker engine answers; a private server
 * from installed binaries, on a free port of 127.0.0.1; the same after an installation, when root on Debian.
 *
 * @throws when a service cannot be had, with the command that helps; then nothing is left running.
 */
export async function startServices<Names extends ServiceName>(
  names: readonly Names[],
  options: StartOptions = {},
): Promise<Services<Names>> {
  const { platform = hostPlatform(), durable = false } = options;
  const plans = await resolveServices([...new Set(names)], platform);
  const { launch, close } = createLauncher(durable);
  // Also when one has failed the others are waited for: only what has started can be taken back.
  const outcomes = await Promise.allSettled(plans.map(launch));
  try {
    const services = outcomes.map(valueOf).map((service) => [service.name, service] as const);
    return { ...(Object.fromEntries(services) as Record<Names, Service>), close };
  } catch (error) {
    await close();
    throw error;
  }
}

function valueOf<T>(outcome: PromiseSettledResult<T>): T {
  if (outcome.status === 'rejected') throw outcome.reason;
  return outcome.value;
}
