import { CATALOG } from './catalog';
import { startServices } from './index';
import { SERVICE_NAMES, type ServiceName } from './service';

/** Nothing else keeps the process alive while it waits for a signal. */
const FOREVER_MS = 2 ** 31 - 1;

async function main(args: readonly string[]): Promise<void> {
  const unknown = args.filter((arg) => !isServiceName(arg));
  if (unknown.length > 0) {
    console.error(`Unknown service ${unknown.join(', ')}: choose from ${SERVICE_NAMES.join(', ')}.`);
    process.exitCode = 2;
    return;
  }
  const interrupted = interruption();
  const names = args.length === 0 ? SERVICE_NAMES : args.filter(isServiceName);
  const services = await startServices(names);
  for (const name of new Set(names))
    console.log(`export ${CATALOG[name].variable}=${quote(services[name].url)}`);
  console.error('Running until Ctrl-C.');
  const alive = setInterval(() => undefined, FOREVER_MS);
  await interrupted;
  clearInterval(alive);
  await services.close();
}

/** Listens for good: npm passes on the Ctrl-C that the terminal has sent to us already. */
function interruption(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, resolve);
  });
}

function isServiceName(arg: string): arg is ServiceName {
  return (SERVICE_NAMES as readonly string[]).includes(arg);
}

/** A URL from the environment may hold what a shell would take for itself. */
function quote(value: string): string {
  return /^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}

main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
