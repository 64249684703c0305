#!/usr/bin/env -S MALLOC_TRIM_THRESHOLD_=131072 node --max-semi-space-size=2 --heap-growing-percent=35 --liftoff-only
// SPDX-License-Identifier: Apache-2.0
// fairlead: `run` is the agent; every other command talks to its socket, to pinned maps, or to nothing.
// Commands are loaded when they are called, so that each needs only what it needs. The flags above keep
// the heap close to what is alive in it: an agent shares its node with those it works for (ADR 12).
import { Command, CommanderError } from 'commander';
import { ERRORS, EXIT, FairleadError, reasonOf } from './errors.ts';
import { packageVersion } from './sys/package.ts';

const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  run: async () => (await import('./cli/commands/run.ts')).runCommand(),
  status: async () => (await import('./cli/commands/status.ts')).statusCommand(),
  services: async () => (await import('./cli/commands/services.ts')).servicesCommand(),
  backends: async () => (await import('./cli/commands/backends.ts')).backendsCommand(),
  connections: async () => (await import('./cli/commands/connections.ts')).connectionsCommand(),
  explain: async () => (await import('./cli/commands/explain.ts')).explainCommand(),
  bypass: async () => (await import('./cli/commands/bypass.ts')).bypassCommand(),
  demo: async () => (await import('./cli/commands/demo.ts')).demoCommand(),
  audit: async () => (await import('./cli/commands/audit.ts')).auditCommand(),
  probe: async () => (await import('./cli/commands/probe.ts')).probeCommand(),
  validate: async () => (await import('./cli/commands/validate.ts')).validateCommand(),
  cleanup: async () => (await import('./cli/commands/cleanup.ts')).cleanupCommand(),
  completion: async () =>
    (await import('./cli/completion/command.ts')).completionCommand(() => programWith(ALL)),
  man: async () => (await import('./cli/completion/command.ts')).manCommand(() => programWith(ALL)),
};
const ALL = Object.keys(COMMANDS);

async function main(args: readonly string[]): Promise<void> {
  const asked = args.find((argument) => !argument.startsWith('-'));
  const isKnown = asked !== undefined && Object.hasOwn(COMMANDS, asked);
  const program = await programWith(isKnown ? [asked] : ALL);
  await program.parseAsync(args, { from: 'user' });
}

async function programWith(names: readonly string[]): Promise<Command> {
  const program = new Command('fairlead')
    .description('eBPF kube-proxy replacement: Services are translated at the socket')
    .version(packageVersion())
    .exitOverride();
  for (const name of names) {
    const load = COMMANDS[name];
    if (load !== undefined) program.addCommand(inheriting(await load()));
  }
  return program;
}

/** Usage errors of sub-commands must come back to us too: they have an exit code of their own. */
function inheriting(command: Command): Command {
  command.exitOverride();
  for (const sub of command.commands) inheriting(sub);
  return command;
}

function exitCodeOf(error: unknown): number {
  if (error instanceof FairleadError) return error.exitCode;
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.fine : EXIT.usage;
  return isDenied(error) ? ERRORS.NO_PRIVILEGE : EXIT.failed;
}

/** EACCES and EPERM of any system call: whatever it was, root could have done it. */
const isDenied = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && ['EACCES', 'EPERM'].includes(String(error.code));

/** A reader that has seen enough, `head` for one, closes the pipe: that is no failure of ours. */
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

try {
  await main(process.argv.slice(2));
} catch (error) {
  // Commander has printed its own words already.
  if (!(error instanceof CommanderError)) process.stderr.write(`fairlead: ${reasonOf(error)}\n`);
  if (
    error instanceof FairleadError &&
    error.detail !== undefined &&
    process.env['FAIRLEAD_DEBUG']
  ) {
    process.stderr.write(`${error.detail}\n`);
  }
  process.exitCode = exitCodeOf(error);
  if (process.exitCode !== EXIT.fine) process.exit();
}
