// SPDX-License-Identifier: Apache-2.0
// Adds the flags of src/config/flags to commands, and returns those that were given as text for src/config to
// parse. Defaults are applied there, not here.
import { type Command, InvalidArgumentError, Option } from 'commander';
import { FLAGS, type FlagValues } from '../config/flags/flags.ts';
import type { FlagRow } from '../config/flags/row.ts';

const PLACEHOLDERS: Readonly<Record<FlagRow['type'], string>> = {
  string: '<string>',
  int: '<int>',
  float: '<float>',
  bool: '[true|false]',
  duration: '<duration>',
  list: '<list>',
  boolMap: '<name=true,...>',
  sizeMap: '<table=entries,...>',
};

/** Fields of kube-proxy that decide what a Service means on this node; of fairlead's own, each says it. */
const PLAN_FIELDS: readonly string[] = [
  'hostnameOverride',
  'mode',
  'bindAddress',
  'detectLocalMode',
  'detectLocal.bridgeInterface',
  'detectLocal.interfaceNamePrefix',
  'clusterCIDR',
  'nodePortAddresses',
  'iptables.masqueradeAll',
];

/** Every flag of kube-proxy and of fairlead, for `run`. */
export function addAllFlags(command: Command): Command {
  return addFlags(command, FLAGS);
}

/** `--config`, the flags that decide what a Service means, and those named: for commands that build a plan. */
export function addPlanFlags(command: Command, names: readonly string[] = []): Command {
  const isPlanFlag = ({ flag, paths, isOfPlan }: FlagRow): boolean =>
    flag === 'config' ||
    isOfPlan === true ||
    names.includes(flag) ||
    paths.some((path) => PLAN_FIELDS.includes(path.join('.')));
  return addFlags(command, FLAGS.filter(isPlanFlag));
}

function addFlags(command: Command, rows: readonly FlagRow[]): Command {
  for (const row of rows) command.addOption(optionOf(row));
  return command.addOption(new Option('--no-external-ips', 'same as --external-ips=false'));
}

function optionOf({ flag, short, type, help }: FlagRow): Option {
  const names = short === undefined ? `--${flag}` : `-${short}, --${flag}`;
  const option = new Option(`${names} ${PLACEHOLDERS[type]}`, help);
  if (type === 'list' || type === 'boolMap' || type === 'sizeMap') {
    // As in pflag, repeated list flags are appended.
    return option.argParser((text: string, before: string | undefined) =>
      before === undefined ? text : `${before},${text}`,
    );
  }
  // pflag's `-v=2` is `-v2` here.
  return option.argParser((text: string) =>
    short !== undefined && text.startsWith('=') ? text.slice(1) : text,
  );
}

/** The flags given on the command line, as text. Boolean flags without a value are `true`. */
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
