// SPDX-License-Identifier: Apache-2.0
// `fairlead services` and `fairlead backends`: what is wanted beside what the kernel holds. With an
// agent both sides come from it; without one the pinned maps are read, and nothing is wanted.
import { Command, Option } from 'commander';
import { backendViews, frontendViews } from '../dataplane/bpf/inspect/view.ts';
import { FairleadError } from '../errors.ts';
import { type BackendRow, backendRows, type ServiceRow, serviceRows } from '../observe/report.ts';
import { askAgent } from '../server/admin-socket.ts';
import { DEFAULT_BPF_ROOT, DEFAULT_RUN_DIR } from './flags.ts';
import { withPinnedTables } from './kernel-view.ts';
import { type Column, list, OUTPUT_FORMATS, type OutputFormat, show } from './output.ts';

interface ListOptions {
  readonly runDir: string;
  readonly bpfRoot: string;
  readonly output: OutputFormat;
  readonly watch: boolean;
  readonly namespace?: string;
}

const SERVICE_COLUMNS: readonly Column<ServiceRow>[] = [
  { title: 'NAMESPACE', text: (row) => row.namespace },
  { title: 'NAME', text: (row) => row.name },
  { title: 'PORT', text: (row) => row.port || '-' },
  { title: 'KIND', text: (row) => row.kind || '-' },
  { title: 'FRONTEND', text: (row) => row.frontend },
  {
    title: 'DESIRED',
    text: (row) => (row.desired === undefined ? '-' : String(row.desired.length)),
  },
  { title: 'KERNEL', text: (row) => (row.kernel === undefined ? '-' : String(row.kernel.length)) },
  { title: 'STATE', text: (row) => row.kernelState },
  { title: 'CONNECTIONS', text: (row) => String(row.connections) },
  { title: 'REFUSED', text: (row) => String(row.refused + row.dropped) },
  {
    title: 'AFFINITY',
    isWide: true,
    text: (row) => (row.affinitySeconds === 0 ? '-' : `${row.affinitySeconds}s`),
  },
  {
    title: 'BACKENDS',
    isWide: true,
    text: (row) => (row.kernel ?? row.desired ?? []).join(',') || '-',
  },
];

const BACKEND_COLUMNS: readonly Column<BackendRow>[] = [
  { title: 'NAMESPACE', text: (row) => row.namespace },
  { title: 'NAME', text: (row) => row.name },
  { title: 'PORT', text: (row) => row.port || '-' },
  { title: 'BACKEND', text: (row) => row.backend },
  {
    title: 'DESIRED',
    text: (row) => (row.desired === undefined ? '-' : row.desired ? 'yes' : 'no'),
  },
  { title: 'KERNEL', text: (row) => row.state || '-' },
  { title: 'STATE', text: (row) => row.kernelState },
  { title: 'CONNECTIONS', text: (row) => String(row.connections) },
  { title: 'OPEN', text: (row) => String(row.open) },
  { title: 'LOCAL', isWide: true, text: (row) => (row.isLocal ? 'yes' : 'no') },
  { title: 'ID', isWide: true, text: (row) => String(row.id) },
  { title: 'GENERATION', isWide: true, text: (row) => String(row.generation) },
];

/** The agent's rows, or, if none runs, what `read` makes of the pins. */
async function rowsFrom<Row>(
  options: ListOptions,
  route: string,
  read: (bpfRoot: string) => readonly Row[],
): Promise<readonly Row[]> {
  try {
    return (await askAgent(options.runDir, route)) as readonly Row[];
  } catch (error) {
    if (!(error instanceof FairleadError) || error.code !== 'NOT_RUNNING') throw error;
    return read(options.bpfRoot);
  }
}

function listCommand(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option('--run-dir <dir>', 'where the agent serves its socket', DEFAULT_RUN_DIR)
    .option('--bpf-root <dir>', 'where its maps are pinned', DEFAULT_BPF_ROOT)
    .addOption(
      new Option('-o, --output <format>', 'how to print').choices(OUTPUT_FORMATS).default('table'),
    )
    .option('-n, --namespace <namespace>', 'only this namespace')
    .option('-w, --watch', 'print again when something changed', false);
}

const inNamespace =
  ({ namespace }: ListOptions) =>
  (row: { readonly namespace: string }): boolean =>
    namespace === undefined || row.namespace === namespace;

export function servicesCommand(): Command {
  return listCommand('services', 'frontends: desired beside the kernel').action(
    (options: ListOptions) =>
      show(async () => {
        const rows = await rowsFrom(options, '/v1/services', (bpfRoot) =>
          withPinnedTables(bpfRoot, (ledger) => serviceRows(undefined, frontendViews(ledger))),
        );
        return list(
          'ServiceList',
          rows.filter(inNamespace(options)),
          SERVICE_COLUMNS,
          options.output,
        );
      }, options.watch),
  );
}

export function backendsCommand(): Command {
  return listCommand('backends', 'backends: desired beside the kernel').action(
    (options: ListOptions) =>
      show(async () => {
        const rows = await rowsFrom(options, '/v1/backends', (bpfRoot) =>
          withPinnedTables(bpfRoot, (ledger) => backendRows(undefined, backendViews(ledger))),
        );
        return list(
          'BackendList',
          rows.filter(inNamespace(options)),
          BACKEND_COLUMNS,
          options.output,
        );
      }, options.watch),
  );
}
