import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { answers, portAnswers } from '../answers';
import type { RabbitmqBinaries } from '../binaries';
import { freePort } from '../free-port';
import type { Recipe } from './program';

interface Ports {
  readonly amqp: number;
  readonly distribution: number;
  readonly epmd: number;
}

/**
 * RabbitMQ without plugins, with an epmd of its own: the one that Erlang would start by itself is a daemon, is
 * shared by all of the machine and never ends.
 */
export async function createRabbitmqRecipe(binaries: RabbitmqBinaries, directory: string): Promise<Recipe> {
  const ports = { amqp: await freePort(), distribution: await freePort(), epmd: await freePort() };
  await writeConfiguration(directory, ports);
  const url = `amqp://guest:guest@127.0.0.1:${ports.amqp}`;
  const common = { directory, environment: environment(binaries, directory, ports) };
  return {
    url,
    programs: [
      {
        ...common,
        command: binaries.epmd,
        args: [],
        logFile: join(directory, 'epmd.log'),
        stopSignal: 'SIGTERM',
        discardSignal: 'SIGKILL',
        answers: () => portAnswers(ports.epmd),
      },
      {
        ...common,
        command: binaries.server,
        args: ['-noinput'],
        logFile: join(directory, 'rabbitmq.log'),
        stopSignal: 'SIGTERM',
        discardSignal: 'SIGKILL',
        answers: () => answers.rabbitmq(url),
      },
    ],
  };
}

async function writeConfiguration(directory: string, ports: Ports): Promise<void> {
  const configuration = [
    `listeners.tcp.local = 127.0.0.1:${ports.amqp}`,
    'log.file = false',
    'log.console = true',
    'log.console.level = warning',
    // The default blocks all publishers on a machine whose disk is nearly full.
    'disk_free_limit.absolute = 1MB',
  ];
  await writeFile(join(directory, 'rabbitmq.conf'), `${configuration.join('\n')}\n`);
  await writeFile(join(directory, 'enabled_plugins'), '[].\n');
}

function environment(binaries: RabbitmqBinaries, directory: string, ports: Ports): Record<string, string> {
  return {
    PATH: `${dirname(binaries.epmd)}:/usr/bin:/bin`,
    LANG: 'C.UTF-8',
    // Where Erlang keeps its cookie.
    HOME: directory,
    ERL_EPMD_ADDRESS: '127.0.0.1',
    ERL_EPMD_PORT: String(ports.epmd),
    // For every Erlang below: RabbitMQ looks after epmd each minute, and would start the daemon.
    ERL_AFLAGS: '-start_epmd false',
    RABBITMQ_NODENAME: 'outbox@localhost',
    RABBITMQ_DIST_PORT: String(ports.distribution),
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '-kernel inet_dist_use_interface {127,0,0,1}',
    // Makes the script become the server instead of waiting for it.
    RABBITMQ_ALLOW_INPUT: 'true',
    RABBITMQ_CONFIG_FILE: join(directory, 'rabbitmq.conf'),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(directory, 'enabled_plugins'),
    RABBITMQ_MNESIA_BASE: join(directory, 'data'),
    RABBITMQ_LOG_BASE: join(directory, 'log'),
    RABBITMQ_LOGS: '-',
    RABBITMQ_PID_FILE: join(directory, 'pid'),
    // Neither exists: they are named so that the machine's own in /etc/rabbitmq are not read.
    RABBITMQ_CONF_ENV_FILE: join(directory, 'rabbitmq-env.conf'),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(directory, 'advanced.config'),
  };
}
