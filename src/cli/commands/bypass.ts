// SPDX-License-Identifier: Apache-2.0
// `fairlead bypass`: cgroups whose sockets are not translated (VMs, anything that must see the Service address itself), and the
// network namespaces that --socket-scope serves as packets. Stored in pinned maps, which persist when the agent stops.
import { existsSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { deleteId, putId, readIds, withBypassMap } from '../../engines/bpf/kernel/bypass-map.ts';
import { openPin } from '../../engines/bpf/kernel/loader/open-pinned.ts';
import { pinFolder } from '../../engines/bpf/kernel/loader/pins.ts';
import { type NetnsRow, netnsAsPackets } from '../../engines/bpf/kernel/scope/list.ts';
import { FairleadError } from '../../errors.ts';
import {
  cgroupId,
  findCgroup2,
  findCgroups,
  isCgroup2,
  lineageOf,
  ROOT_CGROUP_ID,
} from '../../sys/cgroup.ts';
import { type BpfMap, openPinnedLink } from '../../sys/native.ts';
import { addBpfRootOption, addRunDirOption } from '../flags.ts';
import { addOutputOption, machine, type OutputFormat, print, terminalWidth } from '../output.ts';
import { fromMaps } from '../served-by-rules.ts';
import { type Column, table } from '../view/columns.ts';

/** CGROUP_LEVELS in bpf/socket/context.h: the root's is 0. */
const MAX_LEVEL = 63;

interface BypassOptions {
  readonly bpfRoot: string;
  readonly runDir: string;
}

const RULES_BYPASS_NONE =
  ', whose rules translate the packets of every cgroup: none can be bypassed';

const inBypassMap = <T>(options: BypassOptions, use: (map: BpfMap) => T): Promise<T> =>
  fromMaps(options, RULES_BYPASS_NONE, () => withBypassMap(options.bpfRoot, use));

interface ListOptions extends BypassOptions {
  readonly output: OutputFormat;
}

export function bypassCommand(): Command {
  const command = new Command('bypass').description(
    'manage cgroups whose sockets eBPF does not translate; iptables rules translate those of all cgroups',
  );
  const sub = (name: string, description: string): Command =>
    addBpfRootOption(addRunDirOption(command.command(name).description(description)));
  sub('add', 'exempt the sockets of a cgroup and its descendants from translation')
    .argument('<cgroup>', 'a cgroup v2 directory; an ancestor of --cgroup-root exempts all sockets')
    .action((path: string, options: BypassOptions) => add(realCgroup(path), options));
  sub('remove', 'translate the sockets of a bypassed cgroup again')
    .argument('[cgroup]', 'its directory, or the id that list shows')
    .option('--gone', 'remove every cgroup that no longer exists', false)
    .action(remove);
  const list = sub(
    'list',
    'list bypassed cgroups, and network namespaces of pods that --socket-scope serves as packets, each with the reason',
  );
  addOutputOption(list, ['table', 'json', 'yaml']).action(async (options: ListOptions) =>
    print(await listText(await allRows(options), options.output)),
  );
  return command;
}

async function add(path: string, options: BypassOptions): Promise<void> {
  const id = cgroupId(path);
  checkLevel(path);
  checkHooks(path, options.bpfRoot);
  await inBypassMap(options, (map) => putId(map, id));
  print(`bypassed: ${path} (cgroup id ${id})`);
}

interface RemoveOptions extends BypassOptions {
  readonly gone: boolean;
}

async function remove(path: string | undefined, options: RemoveOptions): Promise<void> {
  if ((path === undefined) !== options.gone) {
    throw new FairleadError('BAD_OPTION', 'name either a cgroup or --gone');
  }
  if (path === undefined) {
    await removeGone(options);
    return;
  }
  const id = /^\d+$/.test(path) ? BigInt(path) : cgroupId(realCgroup(path));
  if (!(await inBypassMap(options, (map) => deleteId(map, id)))) {
    throw new FairleadError('NOT_FOUND', `cgroup ${path} (id ${id}) is not bypassed`);
  }
  print(`no longer bypassed: ${path}`);
}

async function removeGone(options: BypassOptions): Promise<void> {
  const removed = await inBypassMap(options, (map) => {
    const rows = bypassRows(readIds(map));
    if (rows.some(({ state }) => state === 'not visible here')) {
      throw new FairleadError(
        'BAD_OPTION',
        'which cgroups are gone is not known here, because this mount does not show the whole cgroup hierarchy: run this command in the root cgroup namespace of the node',
      );
    }
    return rows.filter(({ id, state }) => state === 'gone' && deleteId(map, BigInt(id)));
  });
  if (removed.length === 0) print('Every bypassed cgroup exists');
  for (const { id } of removed) print(`no longer bypassed: cgroup id ${id}, which is gone`);
}

/** A cgroup's own directory. Throws NOT_CGROUP2. */
function realCgroup(path: string): string {
  if (!existsSync(path)) throw new FairleadError('NOT_FOUND', `${path} does not exist`);
  if (!isCgroup2(path)) {
    throw new FairleadError('NOT_CGROUP2', `${path} is not a directory of a cgroup v2 hierarchy`);
  }
  return realpathSync(path);
}

function checkLevel(path: string): void {
  const level = lineageOf(path).length - 1;
  if (level <= MAX_LEVEL) return;
  throw new FairleadError(
    'BAD_OPTION',
    `${path} is ${level} levels below the root of its hierarchy, and the hooks check only ${MAX_LEVEL}: name one of its ancestors`,
  );
}

/** Throws OTHER_CGROUP if the hooks do not apply to any socket of this cgroup. */
function checkHooks(path: string, bpfRoot: string): void {
  const link = join(pinFolder(bpfRoot).links, 'fl_connect4');
  if (!existsSync(link)) return; // No agent has attached the hooks yet.
  const hooks = hooksCgroup(bpfRoot, link);
  if (hooks === undefined) return;
  const lineage = lineageOf(path);
  const isBelow = lineage.includes(hooks);
  const isAbove = findCgroups(new Set([hooks]), path).size > 0;
  // Ancestors of the root of a cgroup namespace are not visible.
  if (isBelow || isAbove || lineage.at(-1) !== ROOT_CGROUP_ID) return;
  const at = findCgroups(new Set([hooks]), findCgroup2() ?? path).get(hooks);
  throw new FairleadError(
    'OTHER_CGROUP',
    `sockets of ${path} are not translated, so there is nothing to bypass: the hooks serve ${at ?? `the cgroup with id ${hooks}`}; name a cgroup below it`,
  );
}

/** undefined: the cgroup no longer exists. */
function hooksCgroup(bpfRoot: string, path: string): bigint | undefined {
  const link = openPin(bpfRoot, path, openPinnedLink);
  try {
    return link.cgroupId || undefined;
  } finally {
    link.close();
  }
}

interface BypassRow {
  readonly kind: 'cgroup' | 'network namespace';
  /** Of a network namespace its cookie; '' = every one but the node's own. */
  readonly id: string;
  /** undefined: this mount shows no such cgroup. Of a network namespace: the cgroup of a process in it, or its mount. */
  readonly path: string | undefined;
  readonly state: 'bypassed' | 'gone' | 'not visible here' | 'as packets';
  readonly reason: string;
  /** Of a network namespace. */
  readonly addresses?: readonly string[];
}

/** Cgroups first. */
async function allRows(options: BypassOptions): Promise<readonly BypassRow[]> {
  const cgroups = bypassRows(await inBypassMap(options, readIds));
  return [...cgroups, ...(await netnsAsPackets(options.bpfRoot)).map(netnsRow)];
}

const netnsRow = (row: NetnsRow): BypassRow => ({
  ...{ kind: 'network namespace', state: 'as packets', ...row },
});

/** Whether a cgroup is gone is known only where the whole hierarchy is mounted. */
function bypassRows(ids: readonly bigint[]): readonly BypassRow[] {
  const root = findCgroup2();
  const paths = root === undefined ? new Map() : findCgroups(new Set(ids), root);
  const missing =
    root !== undefined && cgroupId(root) === ROOT_CGROUP_ID ? 'gone' : 'not visible here';
  return ids.map((id) => ({
    ...{ kind: 'cgroup' as const, reason: 'fairlead bypass add' },
    id: String(id),
    path: paths.get(id),
    state: paths.has(id) ? ('bypassed' as const) : missing,
  }));
}

const COLUMNS: readonly Column<BypassRow>[] = [
  { title: 'ID', cell: ({ id }) => id || 'all pods' },
  { title: 'STATE', cell: ({ state }) => state },
  { title: 'PATH', cell: ({ path }) => path ?? '-' },
  { title: 'ADDRESSES', cell: ({ addresses = [] }) => addresses, spareRank: 1 },
  { title: 'REASON', cell: ({ reason }) => reason, spareRank: 2 },
];

function listText(rows: readonly BypassRow[], format: OutputFormat): Promise<string> | string {
  if (format.kind !== 'table') {
    return machine({ apiVersion: 'fairlead.io/v1', kind: 'BypassList', items: rows }, format);
  }
  const options = { isWide: false, hasHeaders: true, width: terminalWidth() };
  return rows.length === 0
    ? 'No cgroups are bypassed, and no network namespace is served as packets'
    : table(rows, COLUMNS, options).text;
}
