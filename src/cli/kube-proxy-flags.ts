// SPDX-License-Identifier: Apache-2.0
// kube-proxy's command line, and ours, on a command: the flags of src/config/flags/table.ts as text, to
// be read by src/config/flags/flags.ts. No defaults here: only what was really given counts.
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { FlagValues } from '../config/flags/flags.ts';
import type { FlagRow } from '../config/flags/row.ts';
import { FLAGS } from '../config/flags/table.ts';

const PLACEHOLDERS: Readonly<Record<FlagRow['type'], string>> = {
  text: '<value>',
  whole: '<number>',
  number: '<number>',
  bool: '[true|false]',
  duration: '<duration>',
  list: '<list>',
  switches: '<name=true,…>',
  sizes: '<table=entries,…>',
};

export function addKubeProxyFlags(command: Command): Command {
  for (const row of FLAGS) command.addOption(optionOf(row));
  return command.addOption(new Option('--no-external-ips', 'ignore spec.externalIPs'));
}

function optionOf({ flag, short, type, help }: FlagRow): Option {
  const names = short === undefined ? `--${flag}` : `-${short}, --${flag}`;
  const option = new Option(`${names} ${PLACEHOLDERS[type]}`, help);
  if (type === 'list' || type === 'switches' || type === 'sizes') {
    // Given twice, a list grows; so it is with pflag.
    return option.argParser((text: string, before: string | undefined) =>
      before === undefined ? text : `${before},${text}`,
    );
  }
  // `-v=2` is pflag's way to write what is `-v2` here.
  return option.argParser((text: string) =>
    short !== undefined && text.startsWith('=') ? text.slice(1) : text,
  );
}

/** What was given on the command line, as text. Switches without a value are `true`. */
export function flagValues(command: Command): FlagValues {
  const values: Record<string, string> = {};
  for (const { flag } of FLAGS) {
    const option = command.options.find(({ long }) => long === `--${flag}`);
    if (option === undefined) continue;
    const key = option.attributeName();
    if (command.getOptionValueSource(key) !== 'cli') continue;
    values[flag] = textOf(command.getOptionValue(key));
  }
  return values;
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return String(value);
  throw new InvalidArgumentError(`a flag must be text, not ${typeof value}`);
}
