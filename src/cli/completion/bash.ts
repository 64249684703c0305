// SPDX-License-Identifier: Apache-2.0
// Bash completion: one case for each command, one for each option that takes a value.
import { allCommands, type CommandNode, type OptionNode } from './tree.ts';

export function bashScript(root: CommandNode): string {
  const name = root.path[0] ?? '';
  const commands = allCommands(root);
  return `# bash completion for ${name}; load it with: source <(${name} completion bash)
_${name}() {
  local cur prev word path=${name} i
  COMPREPLY=()
  cur=\${COMP_WORDS[COMP_CWORD]}
  prev=\${COMP_WORDS[COMP_CWORD-1]}
  # Readline splits --flag=value at the equals sign.
  if [[ $cur == = ]]; then
    cur=
  elif [[ $prev == = ]]; then
    prev=\${COMP_WORDS[COMP_CWORD-2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    case "$path $word" in
${commands.slice(1).map(pathCase).join('\n')}
    esac
  done
  case "$path:$prev" in
${commands.flatMap(valueCases).join('\n')}
  esac
  case $path in
${commands.map(wordCase).join('\n')}
  esac
}
complete -o filenames -F _${name} ${name}
`;
}

const pathCase = ({ path }: CommandNode): string =>
  `      ${quoted(path.join(' '))}) path=${quoted(path.join(' '))} ;;`;

/** Completes the values of options; nothing is offered where they are not known. */
function valueCases({ path, options }: CommandNode): readonly string[] {
  const takesValue = options.filter(({ valueKind }) => valueKind !== 'none');
  const known = takesValue.filter((option) => replyTo(option) !== undefined);
  const others = takesValue.filter((option) => replyTo(option) === undefined);
  const pattern = (option: OptionNode): string =>
    [option.long, option.short]
      .filter((name) => name !== undefined)
      .map((name) => quoted(`${path.join(' ')}:${name}`))
      .join(' | ');
  return [
    ...known.map(
      (option) => `    ${pattern(option)}) COMPREPLY=($(${replyTo(option)})); return ;;`,
    ),
    ...(others.length === 0 ? [] : [`    ${others.map(pattern).join(' | ')}) return ;;`]),
  ];
}

function replyTo({ valueKind, choices }: OptionNode): string | undefined {
  if (choices.length > 0) return `compgen -W ${quoted(choices.join(' '))} -- "$cur"`;
  if (valueKind === 'file') return 'compgen -f -- "$cur"';
  return valueKind === 'directory' ? 'compgen -d -- "$cur"' : undefined;
}

function wordCase({ path, options, commands, argKind, argChoices }: CommandNode): string {
  const names = [
    ...commands.map((sub) => sub.path.at(-1) ?? ''),
    ...argChoices,
    ...options.map(({ long }) => long),
  ];
  const paths = { file: ' $(compgen -f -- "$cur")', directory: ' $(compgen -d -- "$cur")' };
  const more = argKind === 'file' || argKind === 'directory' ? paths[argKind] : '';
  return `    ${quoted(path.join(' '))}) COMPREPLY=($(compgen -W ${quoted(names.join(' '))} -- "$cur")${more}) ;;`;
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
