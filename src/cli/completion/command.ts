// SPDX-License-Identifier: Apache-2.0
// `fairlead completion SHELL` and `fairlead man`: both are generated from the commands of the program.
import { Argument, Command } from 'commander';
import { packageVersion } from '../../sys/package.ts';
import { bashScript } from './bash.ts';
import { fishScript } from './fish.ts';
import { manPage } from './man.ts';
import { treeOf } from './tree.ts';
import { zshScript } from './zsh.ts';

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;
type Shell = keyof typeof SCRIPTS;

/** @param program the whole program, with every command loaded */
export function completionCommand(program: () => Promise<Command>): Command {
  return new Command('completion')
    .description('print a completion script for a shell, e.g. source <(fairlead completion bash)')
    .addArgument(new Argument('<shell>', 'shell to print it for').choices(Object.keys(SCRIPTS)))
    .action(async (shell: Shell) => {
      process.stdout.write(SCRIPTS[shell](treeOf(await program())));
    });
}

export function manCommand(program: () => Promise<Command>): Command {
  return new Command('man')
    .description('print the manual page, e.g. fairlead man | man -l -')
    .action(async () => {
      process.stdout.write(manPage(treeOf(await program()), packageVersion()));
    });
}
