import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { waitUntil } from '../wait-until';
import { identify, type ProcessIdentity } from './proc';
import type { Program, ServerProgram } from './program';
import { recordProcess } from './run-directory';
import { terminate } from './terminate';

const DEADLINE_MS = 60_000;
const LOG_TAIL_LINES = 20;

/**
 * Starts the processes of a supervisor, each recorded in its directory. What misses its deadline or ends too
 * soon is reported with the end of its log, and nothing of it is left running.
 */
export interface Children {
  /** Starts a server and resolves when it answers. */
  serve(program: ServerProgram): Promise<ProcessIdentity>;
  /** Runs a command to its end. */
  run(program: Program): Promise<void>;
  /** From now on nothing is started any more, whoever is still about to. */
  refuse(): void;
}

interface Child {
  readonly identity: ProcessIdentity;
  /** The exit code or the signal that ended it; undefined while it runs. */
  readonly outcome: () => string | undefined;
}

export function createChildren(runDirectory: string): Children {
  let refusing = false;

  function launch(program: Program): Child {
    if (refusing) throw new Error(`${program.command} was not started: the supervisor is ending.`);
    const child = spawnLogged(program);
    let outcome: string | undefined;
    child.once('exit', (code, signal) => {
      outcome = String(code ?? signal);
    });
    const identity = child.pid === undefined ? undefined : identify(child.pid);
    if (!identity) throw new Error(`${program.command} cannot be run.`);
    recordProcess(runDirectory, identity, program.discardSignal);
    return { identity, outcome: () => outcome };
  }

  return {
    async serve(program) {
      const { identity, outcome } = launch(program);
      const ended = (): boolean => outcome() !== undefined;
      const settled = await waitUntil(async () => ended() || (await program.answers()), DEADLINE_MS);
      if (settled && !ended()) return identity;
      const failure = failureOf(program, `did not come up (${outcome() ?? 'no answer'})`);
      await terminate(identity, 'SIGKILL', 0);
      throw failure;
    },
    async run(program) {
      const { identity, outcome } = launch(program);
      await waitUntil(() => outcome() !== undefined, DEADLINE_MS);
      if (outcome() === '0') return;
      const failure = failureOf(program, `failed (${outcome() ?? 'not done in time'})`);
      await terminate(identity, 'SIGKILL', 0);
      throw failure;
    },
    refuse() {
      refusing = true;
    },
  };
}

function spawnLogged(program: Program): ReturnType<typeof spawn> {
  const log = openSync(program.logFile, 'a');
  try {
    const child = spawn(program.command, program.args, {
      cwd: program.directory,
      env: program.environment,
      // A session of its own: what is typed or sent to the run's terminal is not for the service.
      detached: true,
      stdio: ['ignore', log, log],
      ...program.account,
    });
    // A failed spawn shows in the missing pid; the event would end the supervisor.
    return child.on('error', () => undefined);
  } finally {
    closeSync(log);
  }
}

function failureOf(program: Program, what: string): Error {
  const tail = readFileSync(program.logFile, 'utf8').trimEnd().split('\n').slice(-LOG_TAIL_LINES);
  return new Error(`${program.command} ${what}. The end of its log:\n${tail.join('\n')}`);
}
