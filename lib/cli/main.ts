#!/usr/bin/env node
import { CeleryOutboxError } from '../errors';
import { relayCommand } from './relay-command';
import { UsageError } from './usage-error';

const COMMANDS: Readonly<
  Record<string, { run: (args: readonly string[]) => Promise<number>; help: string }>
> = {
  relay: { run: relayCommand, help: 'hand stored tasks to the broker, until SIGTERM or SIGINT' },
};
const HELP = `Usage: celery-outbox <command> [flags]

Commands:
${Object.entries(COMMANDS)
  .map(([name, { help }]) => `  ${name}  ${help}`)
  .join('\n')}

celery-outbox <command> --help prints its flags.
`;

async function main([name, ...args]: readonly string[]): Promise<number> {
  if (name === undefined || name === '--help' || name === 'help') {
    process.stdout.write(HELP);
    return name === undefined ? 2 : 0;
  }
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined) throw new UsageError(`There is no command ${JSON.stringify(name)}`);
  return command.run(args);
}

main(process.argv.slice(2)).then(
  // Not by itself: a handle of somebody's config must not keep a relay that has stopped.
  (code) => process.exit(code),
  (error: unknown) => {
    const isTold = error instanceof UsageError || error instanceof CeleryOutboxError;
    process.stderr.write(
      `celery-outbox: ${isTold ? error.message : String((error as Error).stack ?? error)}\n`,
    );
    process.exit(error instanceof UsageError ? 2 : 1);
  },
);
