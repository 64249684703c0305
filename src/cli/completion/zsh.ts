// SPDX-License-Identifier: Apache-2.0
// zsh completion: a function for each command, in the language of _arguments (zshcompsys(1)).
import { allCommands, type CommandNode, type OptionNode } from './tree.ts';

export function zshScript(root: CommandNode): string {
  const name = root.path[0] ?? '';
  return `#compdef ${name}
# zsh completion for ${name}; load it with: source <(${name} completion zsh)
${allCommands(root).map(functionOf).join('\n')}
compdef ${functionName(root)} ${name}
`;
}

const functionName = ({ path }: CommandNode): string => `_${path.join('_').replaceAll('-', '_')}`;

function functionOf(node: CommandNode): string {
  const options = node.options.map((option) => `    ${optionSpec(option)} \\`).join('\n');
  if (node.commands.length === 0) {
    const rest = argumentSpec(node);
    return `${functionName(node)}() {\n  _arguments -s \\\n${options.replace(/ \\$/, '')}${rest}\n}`;
  }
  const described = node.commands.map(({ path, help }) => escaped(`${path.at(-1)}:${help}`));
  const calls = node.commands.map((sub) => `      ${sub.path.at(-1)}) ${functionName(sub)} ;;`);
  return `${functionName(node)}() {
  local state line
  _arguments -C \\
${options}
    '1:command:->command' '*::argument:->argument'
  case $state in
    command) local -a commands=(${described.join(' ')}); _describe command commands ;;
    argument) case $line[1] in
${calls.join('\n')}
    esac ;;
  esac
}`;
}

function argumentSpec({ argKind, argChoices }: CommandNode): string {
  const spec =
    argChoices.length > 0
      ? `:value:(${argChoices.join(' ')})`
      : { none: '', value: '', file: '*:file:_files', directory: ':directory:_files -/' }[argKind];
  return spec === '' ? '' : ` \\\n    ${escaped(spec)}`;
}

function optionSpec({ long, short, help, valueKind, choices }: OptionNode): string {
  const value = {
    none: '',
    file: ':file:_files',
    directory: ':directory:_files -/',
    value: ':value:',
  };
  const list = choices.length > 0 ? `:value:(${choices.join(' ')})` : value[valueKind];
  const text = help.replace(/[[\]:]/g, (found) => `\\${found}`);
  const equals = valueKind === 'none' ? '' : '=';
  const names = short === undefined ? [`${long}${equals}`] : [`${long}${equals}`, short];
  return names.map((name) => escaped(`${name}[${text}]${list}`)).join(' ');
}

const escaped = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
