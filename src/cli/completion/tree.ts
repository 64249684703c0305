// SPDX-License-Identifier: Apache-2.0
// The commands and options of the program as plain data, from which completion scripts and the manual page are
// generated.
import type { Command, Option } from 'commander';
import { FLAGS } from '../../config/flags/flags.ts';

/** The value of an option: none, a path, or text, possibly one of a fixed set. */
export type ValueKind = 'none' | 'file' | 'directory' | 'value';

export interface OptionNode {
  /** `--output` */
  readonly long: string;
  /** `-o` */
  readonly short: string | undefined;
  /** `<format>`, `[true|false]`, or empty. */
  readonly placeholder: string;
  readonly help: string;
  readonly valueKind: ValueKind;
  readonly choices: readonly string[];
}

export interface CommandNode {
  /** From the program on: `['fairlead', 'bypass', 'add']`. */
  readonly path: readonly string[];
  readonly help: string;
  /** `<cgroup>` */
  readonly args: readonly string[];
  readonly argKind: ValueKind;
  readonly argChoices: readonly string[];
  readonly options: readonly OptionNode[];
  readonly commands: readonly CommandNode[];
}

const FILES = ['--config', '--write-config-to', '--kubeconfig'];
const DIRECTORIES = ['--manifests', '--cgroup-root', '--bpf-root', '--run-dir'];
const CHOICES = new Map(FLAGS.map(({ flag, choices = [] }) => [`--${flag}`, choices]));

export function treeOf(command: Command, above: readonly string[] = []): CommandNode {
  const path = [...above, command.name()];
  const args = command.registeredArguments;
  const own = command.options.filter(({ hidden }) => !hidden).map(optionNode);
  return {
    path,
    help: command.description(),
    args: args.map((arg) => argText(arg.name(), arg.required, arg.variadic)),
    argKind: argKind(args.map((arg) => arg.name())),
    argChoices: args.flatMap((arg) => arg.argChoices ?? []),
    options: [...own, HELP],
    commands: command.commands.map((sub) => treeOf(sub, path)),
  };
}

const HELP: OptionNode = {
  long: '--help',
  short: '-h',
  placeholder: '',
  help: 'print help for the command',
  valueKind: 'none',
  choices: [],
};

/** Manifests and cgroups are paths; names of Services are not looked up. */
function argKind(names: readonly string[]): ValueKind {
  if (names.includes('manifests')) return 'file';
  return names.includes('cgroup') ? 'directory' : 'none';
}

function argText(name: string, isRequired: boolean, isVariadic: boolean): string {
  const text = `${name}${isVariadic ? '...' : ''}`;
  return isRequired ? `<${text}>` : `[${text}]`;
}

function optionNode(option: Option): OptionNode {
  const long = option.long ?? option.short ?? '';
  const placeholder = /[<[].*$/.exec(option.flags)?.[0] ?? '';
  return {
    long,
    short: option.long === undefined ? undefined : option.short,
    placeholder,
    help: helpText(option),
    valueKind: valueKind(long, placeholder),
    choices: CHOICES.get(long) ?? formatsOf(option),
  };
}

/** -o lists its formats in its help; a template is not to be completed. */
function formatsOf({ description, argChoices = [] }: Option): readonly string[] {
  const [, listed = ''] = /^output format: (.*)$/.exec(description) ?? [];
  const formats = listed.split(', ').filter((format) => /^[a-z]+$/.test(format));
  return [...argChoices, ...formats];
}

function helpText({ description, defaultValue, defaultValueDescription }: Option): string {
  const isShown = ['string', 'number'].includes(typeof defaultValue) && defaultValue !== '';
  const value = defaultValueDescription ?? (isShown ? String(defaultValue) : undefined);
  return value === undefined ? description : `${description} (default ${value})`;
}

function valueKind(long: string, placeholder: string): ValueKind {
  // A boolean flag accepts a value only after `=`.
  if (!placeholder.startsWith('<')) return 'none';
  if (FILES.includes(long)) return 'file';
  return DIRECTORIES.includes(long) ? 'directory' : 'value';
}

/** The command and all below it, in the order a reader meets them. */
export function allCommands(node: CommandNode): readonly CommandNode[] {
  return [node, ...node.commands.flatMap(allCommands)];
}
