// SPDX-License-Identifier: Apache-2.0
// fish completion: one `complete` line for each command and each option.
import { allCommands, type CommandNode, type OptionNode } from './tree.ts';

export function fishScript(root: CommandNode): string {
  const name = root.path[0] ?? '';
  const lines = allCommands(root).flatMap((node) => [
    ...node.commands.map((sub) => commandLine(name, node, sub)),
    ...node.options.map((option) => optionLine(name, node, option)),
    ...argumentLines(name, node),
  ]);
  return `# fish completion for ${name}; load it with: ${name} completion fish | source
complete -c ${name} -f
${lines.join('\n')}
`;
}

/** True where this command, and none of those below it, has been typed. */
function condition({ path, commands }: CommandNode): string {
  const seen = path.slice(1).map((word) => `__fish_seen_subcommand_from ${word}`);
  const below = commands.map((sub) => sub.path.at(-1) ?? '').join(' ');
  const none = below === '' ? [] : [`not __fish_seen_subcommand_from ${below}`];
  return quoted([...seen, ...none].join('; and '));
}

const commandLine = (name: string, node: CommandNode, { path, help }: CommandNode): string =>
  `complete -c ${name} -n ${condition(node)} -a ${path.at(-1)} -d ${quoted(help)}`;

function argumentLines(name: string, node: CommandNode): readonly string[] {
  const { argKind, argChoices } = node;
  const head = `complete -c ${name} -n ${condition(node)}`;
  if (argChoices.length > 0) return [`${head} -a ${quoted(argChoices.join(' '))}`];
  if (argKind === 'file') return [`${head} -F`];
  return argKind === 'directory' ? [`${head} -a "(__fish_complete_directories)"`] : [];
}

function optionLine(name: string, node: CommandNode, option: OptionNode): string {
  const { long, short, help, valueKind, choices } = option;
  const names = `-l ${long.slice(2)}${short === undefined ? '' : ` -s ${short.slice(1)}`}`;
  const value = {
    none: '',
    file: ' -r -F',
    directory: ' -x -a "(__fish_complete_directories)"',
    value: ' -x',
  };
  const list = choices.length > 0 ? ` -x -a ${quoted(choices.join(' '))}` : value[valueKind];
  return `complete -c ${name} -n ${condition(node)} ${names}${list} -d ${quoted(help)}`;
}

const quoted = (text: string): string => `'${text.replace(/[\\']/g, (found) => `\\${found}`)}'`;
