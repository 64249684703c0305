// SPDX-License-Identifier: Apache-2.0
// The program's commands, and how it ends. Commands are loaded when they are called, so that each needs only what it needs.
import { Command, CommanderError } from 'commander';
import { ERRORS, EXIT, FairleadError, reasonOf } from '../errors.ts';
import { packageVersion } from '../sys/package.ts';
import { commandName, stopSignals } from './signals.ts';

/** By the words that call them. */
export type Commands = Readonly<Record<string, () => Promise<Command>>>;

const COMMANDS: Commands = {
  run: async () => (await import('./commands/run.ts')).runCommand(stopSignals),
  status: async () => (await import('./commands/status.ts')).statusCommand(),
  services: async () => (await import('./commands/services.ts')).servicesCommand(),
  backends: async () => (await import('./commands/backends.ts')).backendsCommand(),
  connections: async () => (await import('./commands/connections.ts')).connectionsCommand(),
  explain: async () => (await import('./commands/explain.ts')).explainCommand(),
  history: async () => (await import('./commands/history.ts')).historyCommand(),
  compare: async () => (await import('./compare/command.ts')).compareCommand(),
  capture: async () => (await import('./capture/command.ts')).captureCommand(),
  bypass: async () => (await import('./commands/bypass.ts')).bypassCommand(),
  audit: async () => (await import('./commands/audit.ts')).auditCommand(),
  verify: async () => (await import('./commands/verify.ts')).verifyCommand(),
  probe: async () => (await import('./commands/probe.ts')).probeCommand(),
  validate: async () => (await import('./commands/validate.ts')).validateCommand(),
  cleanup: async () => (await import('./commands/cleanup.ts')).cleanupCommand(),
  completion: async () =>
    (await import('./completion/command.ts')).completionCommand(() => programWith(COMMANDS)),
  man: async () =>
    (await import('./completion/command.ts')).manCommand(() => programWith(COMMANDS)),
};

async function main(args: readonly string[], commands: Commands): Promise<void> {
  const asked = commandName(args);
  const known = Object.entries(commands).filter(([name]) => name === asked);
  const program = await programWith(known.length === 0 ? commands : Object.fromEntries(known));
  await program.parseAsync(args, { from: 'user' });
}

async function programWith(commands: Commands): Promise<Command> {
  const program = new Command('fairlead')
    .description(
      'kube-proxy replacement: serves Services by eBPF, and by iptables where the kernel cannot',
    )
    .version(packageVersion())
    .exitOverride();
  for (const load of Object.values(commands)) program.addCommand(inheriting(await load()));
  // A signal that came while they were loaded is answered now, before anything begins. Node asks for signals before it comes
  // to the second of these.
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
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

/** Runs one command to its end, and sets the exit code. */
export async function runProgram(
  args: readonly string[],
  commands: Commands = COMMANDS,
): Promise<void> {
  try {
    await main(args, commands);
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
}
