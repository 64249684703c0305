// SPDX-License-Identifier: Apache-2.0
// The options of commands that list something of Services. Names and flags have their meaning in kubectl, except
// that all namespaces are shown by default, because a node serves them all.
import { type Command, InvalidArgumentError } from 'commander';
import { FairleadError } from '../errors.ts';
import { parseSelector, type Selector } from '../model/selector.ts';
import { addOutputOption, type OutputFormat } from './output.ts';

export interface SelectionOptions {
  readonly output: OutputFormat;
  readonly watch: boolean;
  readonly headers: boolean;
  readonly namespace?: string;
  readonly allNamespaces: boolean;
  readonly selector?: Selector;
}

export function addSelectionOptions(command: Command): Command {
  command.argument('[name...]', 'Services as NAME or NAMESPACE/NAME (default: all)');
  return addOutputOption(command, ['table', 'wide', 'name', 'json', 'yaml'])
    .option(
      '-n, --namespace <namespace>',
      'list only this namespace (default: all namespaces)',
      namespaceName,
    )
    .option('-A, --all-namespaces', 'list all namespaces, even if -n is given', false)
    .option(
      '-l, --selector <selector>',
      'label selector of the Services, e.g. app=web,tier!=db,env in (a,b)',
      readSelector,
    )
    .option('--no-headers', 'do not print column headers')
    .option('-w, --watch', 'print again after each change', false);
}

function readSelector(text: string): Selector {
  const selector = parseSelector(text);
  if (selector !== undefined) return selector;
  throw new InvalidArgumentError(
    `"${text}" is not a label selector such as app=web,tier!=db,env in (a,b),!legacy`,
  );
}

function namespaceName(text: string): string {
  if (text !== '') return text;
  throw new InvalidArgumentError('It must not be empty: omit it to list all namespaces.');
}

/** The part of the options that selects Services. */
export type Selection = Pick<SelectionOptions, 'namespace' | 'allNamespaces'>;

export interface Named {
  readonly namespace: string;
  readonly name: string;
}

export const isInScope =
  ({ namespace, allNamespaces }: Selection) =>
  (row: Named): boolean =>
    allNamespaces || namespace === undefined || row.namespace === namespace;

export const isNamed = (row: Named, name: string): boolean =>
  name === row.name || name === `${row.namespace}/${row.name}`;

/** Throws NOT_FOUND for a name that no row has. */
export function checkNames(
  names: readonly string[],
  rows: readonly Named[],
  selection: Selection,
): void {
  for (const name of names) {
    if (rows.some((row) => isNamed(row, name))) continue;
    throw new FairleadError('NOT_FOUND', `Service "${name}" not found${placeText(selection)}`);
  }
}

/** ` in namespace default`; '' for all. */
export const placeText = ({ namespace, allNamespaces }: Selection): string =>
  allNamespaces || namespace === undefined ? '' : ` in namespace ${namespace}`;
