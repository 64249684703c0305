// SPDX-License-Identifier: Apache-2.0
// Common parts of `services` and `backends`: reading and printing rows.
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import type { Snapshot } from '../../engines/snapshot.ts';
import { FairleadError } from '../../errors.ts';
import { programmedBelow } from '../../instance/dataplanes.ts';
import { labelsOf } from '../../model/selector.ts';
import { READING_TIMEOUT_MS } from '../../server/admin-socket.ts';
import { addCaptureOption, askOf } from '../capture/answers.ts';
import { addBpfRootOption, addRunDirOption } from '../flags.ts';
import { machine, type Shown, show, terminalWidth } from '../output.ts';
import {
  addSelectionOptions,
  checkNames,
  isInScope,
  isNamed,
  placeText,
  type SelectionOptions,
} from '../selection.ts';
import { type Column, table } from '../view/columns.ts';
import { type Rated, rated } from '../view/rate.ts';

export interface ListOptions extends SelectionOptions {
  readonly runDir: string;
  readonly bpfRoot: string;
  readonly capture?: string;
}

export interface Row {
  readonly namespace: string;
  readonly name: string;
  readonly labels: string;
  readonly connections?: number | undefined;
}

export interface ListSpec<R extends Row> {
  readonly command: 'services' | 'backends';
  readonly description: string;
  /** `ServiceList`. */
  readonly kind: string;
  readonly columns: readonly Column<Rated<R>>[];
  /** What -o name prints of a row. */
  readonly nameOf: (row: R) => string;
  /** Identifies a row across readings. */
  readonly keyOf: (row: R) => string;
  /** The rows of the pinned maps, without an agent. */
  readonly fromPins: (programmed: Snapshot) => readonly R[];
}

const MEASURING_MS = 1_000;

export function listCommand<R extends Row>(spec: ListSpec<R>): Command {
  const command = addSelectionOptions(new Command(spec.command).description(spec.description));
  command.addHelpText(
    'after',
    '\n-o wide measures new connections per second, which takes one second.',
  );
  return addCaptureOption(addBpfRootOption(addRunDirOption(command), { asksFirst: true })).action(
    (names: readonly string[], options: ListOptions) => listRows(spec, names, options),
  );
}

async function listRows<R extends Row>(
  spec: ListSpec<R>,
  names: readonly string[],
  options: ListOptions,
): Promise<void> {
  const { output, capture } = options;
  const watch = options.watch && capture === undefined;
  const isWide = output.kind === 'wide';
  // A capture does not change.
  const isMeasured = isWide && capture === undefined;
  let before = isMeasured ? await reading(spec, options) : undefined;
  if (isMeasured && !watch) await sleep(MEASURING_MS);
  await show(
    async () => {
      const now = await reading(spec, options);
      const rows = chosen(rated(now, before, spec.keyOf), names, options);
      before = isMeasured ? now : undefined;
      return shownOf(spec, rows, options);
    },
    { isWatching: watch, format: output, ...(isWide && { intervalMs: MEASURING_MS }) },
  );
}

export interface Reading<R> {
  readonly rows: readonly R[];
  readonly atMs: number;
}

/** The rows of the agent or, if none is running, of the pinned maps. */
async function reading<R extends Row>(
  spec: ListSpec<R>,
  options: ListOptions,
): Promise<Reading<R>> {
  try {
    const rows = (await askOf(options)(`/v1/${spec.command}`, READING_TIMEOUT_MS)) as readonly R[];
    return { rows, atMs: performance.now() };
  } catch (error) {
    if (!(error instanceof FairleadError) || error.code !== 'NOT_RUNNING') throw error;
    if (options.selector !== undefined) {
      throw new FairleadError(
        'NOT_RUNNING',
        `${error.message}; labels are known only to a running agent`,
      );
    }
    const rows = spec.fromPins(programmedBelow(options.bpfRoot));
    return { rows, atMs: performance.now() };
  }
}

function chosen<R extends Row>(
  rows: readonly Rated<R>[],
  names: readonly string[],
  options: ListOptions,
): readonly Rated<R>[] {
  const { selector } = options;
  const inScope = rows
    .filter(isInScope(options))
    .filter((row) => selector === undefined || selector(labelsOf(row.labels)));
  if (names.length === 0) return inScope;
  checkNames(names, inScope, options);
  return inScope.filter((row) => names.some((name) => isNamed(row, name)));
}

async function shownOf<R extends Row>(
  { command, kind, columns, nameOf }: ListSpec<R>,
  rows: readonly Rated<R>[],
  options: ListOptions,
): Promise<Shown> {
  const { output, headers, namespace, allNamespaces } = options;
  if (output.kind === 'name') return { text: [...new Set(rows.map(nameOf))].join('\n') };
  if (output.kind !== 'table' && output.kind !== 'wide') {
    const items = rows.map(({ newPerSecond: _, ...row }) => row);
    return { text: await machine({ apiVersion: 'fairlead.io/v1', kind, items }, output) };
  }
  if (rows.length === 0) {
    const note = `No ${command} found${placeText(options)}.`;
    return { text: '', note };
  }
  const isOneNamespace = namespace !== undefined && !allNamespaces;
  const { text, hidden } = table(
    rows,
    columns.filter(({ title }) => !isOneNamespace || title !== 'NAMESPACE'),
    { isWide: output.kind === 'wide', hasHeaders: headers, width: terminalWidth() },
  );
  const note = `(columns hidden to fit the terminal: ${hidden.join(', ')}; use -o wide)`;
  return hidden.length === 0 ? { text } : { text, note };
}
