import { openSockets } from './open-sockets';
import { startServices, type Service, type ServiceName, type Services } from '../../services';

const started = new Map<ServiceName, Promise<Services>>();

/** A service of this test run: started when the first test asks for it, stopped when the run ends. */
export async function service(name: ServiceName): Promise<Service> {
  const starting = started.get(name) ?? startServices([name]);
  started.set(name, starting);
  return (await starting)[name];
}

/** Connections of this process to its services, by name: none, when all tests have closed theirs. */
export async function openConnections(): Promise<string[]> {
  const services = await Promise.all([...started].map(async ([name, starting]) => (await starting)[name]));
  return services.flatMap(({ name, url }) => Array.from({ length: openSockets(url) }, () => name));
}

export async function stopServices(): Promise<void> {
  const stopping = [...started.values()].map(async (starting) => (await starting).close());
  started.clear();
  await Promise.all(stopping);
}
