import { request } from 'node:http';
import type { Environment } from './platform';

const PING_DEADLINE_MS = 1_000;
const DEFAULT_HOST = 'unix:///var/run/docker.sock';

/**
 * Whether a Docker engine answers where DOCKER_HOST says, or else on the usual socket. An installed client proves
 * nothing, and testcontainers takes seconds to find out. An engine that insists on TLS counts as absent.
 */
export function engineAnswers(environment: Environment): Promise<boolean> {
  const target = parseHost(environment['DOCKER_HOST'] ?? DEFAULT_HOST);
  if (!target) return Promise.resolve(false);
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(PING_DEADLINE_MS);
    const ping = request({ ...target, path: '/_ping', signal, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    ping.once('error', () => {
      resolve(false);
    });
    ping.end();
  });
}

type Target = { socketPath: string } | { host: string; port: string };

function parseHost(host: string): Target | undefined {
  if (!URL.canParse(host)) return undefined;
  const { protocol, hostname, port, pathname } = new URL(host);
  if (protocol === 'unix:') return { socketPath: pathname };
  if (protocol === 'tcp:' || protocol === 'http:') return { host: hostname, port: port || '2375' };
  return undefined;
}
