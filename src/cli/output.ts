// SPDX-License-Identifier: Apache-2.0
// Output of commands: tables, names, JSON, YAML and templates, once or after each change. Data goes to stdout,
// messages to stderr.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { dump } from 'js-yaml';
import { fillTemplate } from './view/jsonpath.ts';

export type NamedFormat = 'table' | 'text' | 'wide' | 'name' | 'json' | 'yaml';

export interface OutputFormat {
  readonly kind: NamedFormat | 'jsonpath';
  /** Of jsonpath. */
  readonly template: string;
}

/** `-o`, with the formats that the command has besides jsonpath; the first is the default. */
export function addOutputOption(
  command: Command,
  formats: readonly [NamedFormat, ...NamedFormat[]],
): Command {
  const known = [...formats, 'jsonpath=TEMPLATE'];
  return command.addOption(
    new Option('-o, --output <format>', `output format: ${known.join(', ')}`)
      .argParser((text) => parseFormat(text, formats))
      .default({ kind: formats[0], template: '' }, formats[0]),
  );
}

/** Throws InvalidArgumentError. */
export function parseFormat(text: string, formats: readonly NamedFormat[]): OutputFormat {
  const kind = formats.find((format) => format === text);
  if (kind !== undefined) return { kind, template: '' };
  const [, template] = /^jsonpath=(.+)$/s.exec(text) ?? [];
  if (template !== undefined) return { kind: 'jsonpath', template };
  throw new InvalidArgumentError(`Allowed are ${[...formats, 'jsonpath=TEMPLATE'].join(', ')}.`);
}

/** One value for programs. */
export function machine(value: object, { kind, template }: OutputFormat): Promise<string> | string {
  if (kind === 'jsonpath') return fillTemplate(template, value);
  return kind === 'yaml' ? dump(value, { noRefs: true }).trimEnd() : jsonText(value);
}

export const jsonText = (value: object): string => JSON.stringify(value, undefined, 2);

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

export function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** Columns of the terminal; undefined if stdout is none. */
export const terminalWidth = (): number | undefined =>
  process.stdout.isTTY ? process.stdout.columns : undefined;

export interface WatchOptions {
  readonly isWatching: boolean;
  readonly format: OutputFormat;
  readonly intervalMs?: number;
}

const WATCH_INTERVAL_MS = 500;

export interface Shown {
  /** '' prints nothing. */
  readonly text: string;
  /** A message for stderr, after the text. */
  readonly note?: string;
}

/** Prints once or, while watching, after each change until interrupted. */
export async function show(read: () => Promise<Shown>, options: WatchOptions): Promise<void> {
  const { isWatching, format, intervalMs = WATCH_INTERVAL_MS } = options;
  let last: string | undefined;
  do {
    const { text, note } = await read();
    // A template may end its last line itself.
    const whole = format.kind === 'jsonpath' ? text.replace(/\n$/, '') : text;
    if (text !== last && text !== '') print(`${separator(last !== undefined, format)}${whole}`);
    if (text !== last && note !== undefined) say(note);
    last = text;
    if (isWatching) await sleep(intervalMs);
  } while (isWatching);
}

/** Between two outputs of --watch: YAML has its own separator, JSON needs none. */
function separator(isAgain: boolean, { kind }: OutputFormat): string {
  if (!isAgain || kind === 'json') return '';
  return kind === 'yaml' ? '---\n' : '\n';
}
