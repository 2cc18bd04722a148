import type { StartedTestContainer } from 'testcontainers';
import { answers } from './answers';
import { DOCKER_IMAGES } from './docker-images';
import { freePort } from './free-port';
import type { Service, ServiceName } from './service';
import { waitUntil } from './wait-until';

const ANSWER_DEADLINE_MS = 60_000;
const STOP_GRACE_S = 15;
const LOG_TAIL_LINES = 20;

/** A service in a container, and how to be rid of it. */
export interface DockerService {
  readonly service: Service;
  readonly remove: () => Promise<void>;
}

/**
 * Starts a container and resolves when its service answers. When the run is killed, the reaper that
 * testcontainers starts beside it removes the container.
 */
export async function startDockerService(name: ServiceName, durable: boolean): Promise<DockerService> {
  const { GenericContainer } = await import('testcontainers');
  const { image, port, environment, command } = DOCKER_IMAGES[name];
  const container = await new GenericContainer(image)
    .withEnvironment(environment)
    .withCommand(command(durable))
    // A fixed port on the host, because a port of Docker's choice would change with every start.
    .withExposedPorts({ container: port, host: await freePort() })
    .start();
  const remove = async (): Promise<void> => {
    await container.stop();
  };
  try {
    const service = await createService(name, container);
    await service.start();
    return { service, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Speaks to Docker directly: the container of testcontainers can be stopped only once, and not killed. */
async function createService(name: ServiceName, container: StartedTestContainer): Promise<Service> {
  const { getContainerRuntimeClient } = await import('testcontainers');
  const handle = (await getContainerRuntimeClient()).container.getById(container.getId());
  const { port, url: urlOf } = DOCKER_IMAGES[name];
  const url = urlOf(`${container.getHost()}:${String(container.getMappedPort(port))}`);

  return {
    name,
    url,
    origin: 'docker',
    async start() {
      await unlessAlready(handle.start());
      if (await waitUntil(() => answers[name](url), ANSWER_DEADLINE_MS)) return;
      const log = await handle.logs({ stdout: true, stderr: true, tail: LOG_TAIL_LINES });
      throw new Error(`The container of ${name} does not answer. The end of its log:\n${log.toString()}`);
    },
    stop: () => unlessAlready(handle.stop({ t: STOP_GRACE_S })),
    kill: () => unlessAlready(handle.kill()),
  };
}

/** Docker answers 304 or 409 when the container is already in the state asked for. */
async function unlessAlready(action: Promise<unknown>): Promise<void> {
  await action.catch((error: unknown) => {
    const status = (error as { statusCode?: number }).statusCode;
    if (status !== 304 && status !== 409) throw error;
  });
}
