import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createServer as createSocketServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { engineAnswers } from '../../services/docker-engine';

describe('the question for a Docker engine', () => {
  let directory: string;
  let socketPath: string;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'outbox-docker-test-'));
    socketPath = join(directory, 'docker.sock');
  });
  afterEach(() => {
    rmSync(directory, { recursive: true });
  });

  const ask = (): Promise<boolean> => engineAnswers({ DOCKER_HOST: `unix://${socketPath}` });

  async function fakeEngine(status: number): Promise<Server> {
    const server = createServer((request, response) => {
      response.writeHead(request.url === '/_ping' ? status : 404).end('OK');
    });
    await once(server.listen(socketPath), 'listening');
    return server;
  }

  it('is answered by /_ping alone', async () => {
    for (const [status, expected] of [
      [200, true],
      [500, false],
    ] as const) {
      const server = await fakeEngine(status);
      expect(await ask()).to.equal(expected);
      await once(server.close(), 'close');
    }
  });

  it('is denied at once by a socket that nobody serves', async () => {
    const begin = performance.now();
    expect(await ask()).to.equal(false);
    writeFileSync(socketPath, '');
    expect(await ask()).to.equal(false);
    expect(performance.now() - begin).to.be.below(500);
  });

  it('is not waited for without end', async () => {
    const server = createSocketServer((socket) => socket.resume());
    await once(server.listen(socketPath), 'listening');
    expect(await ask()).to.equal(false);
    await once(server.close(), 'close');
  });

  it('is also asked over TCP, and nowhere else', async () => {
    const server = createServer((_request, response) => response.end('OK'));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as { port: number };
    expect(await engineAnswers({ DOCKER_HOST: `tcp://127.0.0.1:${port}` })).to.equal(true);
    expect(await engineAnswers({ DOCKER_HOST: 'ssh://somewhere' })).to.equal(false);
    expect(await engineAnswers({ DOCKER_HOST: 'nonsense' })).to.equal(false);
    await once(server.close(), 'close');
  });
});
