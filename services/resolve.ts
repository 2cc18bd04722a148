import type { Binaries } from './binaries';
import { CATALOG } from './catalog';
import { debianPackages, installPackages } from './install';
import type { Platform } from './platform';
import type { ServiceName } from './service';

export interface EnvironmentPlan {
  readonly origin: 'environment';
  readonly name: ServiceName;
  readonly url: string;
}

export interface DockerPlan {
  readonly origin: 'docker';
  readonly name: ServiceName;
}

type PrivatePlans = {
  readonly [Name in ServiceName]: {
    readonly origin: 'private';
    readonly name: Name;
    readonly binaries: Binaries[Name];
  };
};

export type PrivatePlan = PrivatePlans[ServiceName];

export type Plan = EnvironmentPlan | DockerPlan | PrivatePlan;

/**
 * Decides for each service where it comes from: the environment, Docker, or installed binaries. Where these are
 * missing, installs them if it may.
 *
 * A server that merely happens to listen on a default port is never used: it is somebody's, with their data.
 *
 * @throws an error that names the one command that helps.
 */
export async function resolveServices(names: readonly ServiceName[], platform: Platform): Promise<Plan[]> {
  const given = names.flatMap((name) => environmentPlan(name, platform) ?? []);
  const wanted = names.filter((name) => !given.some((plan) => plan.name === name));
  if (wanted.length === 0) return given;
  if (await platform.dockerAnswers())
    return [...given, ...wanted.map((name): Plan => ({ origin: 'docker', name }))];
  return [...given, ...(await resolvePrivately(wanted, platform))];
}

function environmentPlan(name: ServiceName, platform: Platform): EnvironmentPlan | undefined {
  const url = platform.environment[CATALOG[name].variable];
  return url ? { origin: 'environment', name, url } : undefined;
}

async function resolvePrivately(names: readonly ServiceName[], platform: Platform): Promise<PrivatePlan[]> {
  let plans = names.flatMap((name) => privatePlan(name, platform) ?? []);
  if (plans.length < names.length && platform.isRoot && platform.hasApt) {
    await installPackages(debianPackages(missing(names, plans)), platform);
    plans = names.flatMap((name) => privatePlan(name, platform) ?? []);
  }
  if (plans.length < names.length) throw new Error(advice(missing(names, plans), platform));
  return plans;
}

function privatePlan<Name extends ServiceName>(
  name: Name,
  platform: Platform,
): PrivatePlans[Name] | undefined {
  const binaries = platform.find[name]();
  // The compiler does not see that the name of the finder is the name of its binaries.
  return binaries && ({ origin: 'private', name, binaries } as PrivatePlans[Name]);
}

function missing(names: readonly ServiceName[], plans: readonly PrivatePlan[]): ServiceName[] {
  return names.filter((name) => !plans.some((plan) => plan.name === name));
}

function advice(names: readonly ServiceName[], platform: Platform): string {
  const given = names.map((name) => `${CATALOG[name].variable}=${CATALOG[name].exampleUrl}`);
  const command = platform.hasApt
    ? `${platform.isRoot ? '' : 'sudo '}apt-get install -y ${debianPackages(names).join(' ')}`
    : `export ${given.join(' ')}`;
  return `No ${names.join(', ')}: nothing in the environment, no Docker engine, nothing installed. Run: ${command}`;
}
