// SPDX-License-Identifier: Apache-2.0
// `fairlead bypass`: cgroups whose sockets are left alone (meshes, VMs, anything that must see the
// Service address itself). Kept in a pinned map, so it outlives the agent.
import { existsSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { deleteId, putId, readIds, withBypassMap } from '../dataplane/bpf/bypass-map.ts';
import { pinFolder } from '../dataplane/bpf/loader/pins.ts';
import { FairleadError } from '../errors.ts';
import {
  cgroupId,
  findCgroup2,
  findCgroups,
  isCgroup2,
  lineageOf,
  ROOT_CGROUP_ID,
} from '../sys/cgroup.ts';
import { openPinnedLink } from '../sys/native.ts';
import { addBpfRootOption } from './flags.ts';
import { addOutputOption, machine, type OutputFormat, print, terminalWidth } from './output.ts';
import { type Column, table } from './view/table.ts';

/** CGROUP_LEVELS in bpf/socket/context.h: the root's is 0. */
const MAX_LEVEL = 63;

interface BypassOptions {
  readonly bpfRoot: string;
}

interface ListOptions extends BypassOptions {
  readonly output: OutputFormat;
}

export function bypassCommand(): Command {
  const command = new Command('bypass').description('cgroups whose sockets are not translated');
  const sub = (name: string, description: string): Command =>
    addBpfRootOption(command.command(name).description(description));
  sub('add', 'leave the sockets of this cgroup and those below it alone')
    .argument('<cgroup>', 'a cgroup v2 directory, at any depth; one above --cgroup-root covers all')
    .action((path: string, options: BypassOptions) => add(realCgroup(path), options));
  sub('remove', 'translate its sockets again')
    .argument('<cgroup>', 'the directory, or the id that list shows')
    .action((path: string, options: BypassOptions) => {
      const id = /^\d+$/.test(path) ? BigInt(path) : cgroupId(realCgroup(path));
      if (!withBypassMap(options.bpfRoot, (map) => deleteId(map, id))) {
        throw new FairleadError('NOT_FOUND', `cgroup ${path} (id ${id}) is not bypassed`);
      }
      print(`no longer bypassed: ${path}`);
    });
  const list = sub('list', 'bypassed cgroups by id and path, and which of them are gone');
  addOutputOption(list, ['table', 'json', 'yaml']).action(async (options: ListOptions) =>
    print(await listText(withBypassMap(options.bpfRoot, readIds), options.output)),
  );
  return command;
}

function add(path: string, { bpfRoot }: BypassOptions): void {
  const id = cgroupId(path);
  checkLevel(path);
  checkHooks(path, bpfRoot);
  withBypassMap(bpfRoot, (map) => putId(map, id));
  print(`bypassed: ${path} (cgroup id ${id})`);
}

/** A cgroup's own directory. Throws NOT_CGROUP2. */
function realCgroup(path: string): string {
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
    `${path} is ${level} levels below the root of its hierarchy, and the hooks look at ${MAX_LEVEL}: name a cgroup above it`,
  );
}

/** Throws OTHER_CGROUP if no socket of this cgroup meets the hooks anyway. */
function checkHooks(path: string, bpfRoot: string): void {
  const link = join(pinFolder(bpfRoot).links, 'fl_connect4');
  if (!existsSync(link)) return; // Attached later, or never: the agent says so.
  const hooks = hooksCgroup(link);
  if (hooks === undefined) return;
  const lineage = lineageOf(path);
  const isBelow = lineage.includes(hooks);
  const isAbove = findCgroups(new Set([hooks]), path).size > 0;
  // Within a cgroup namespace what is above its root cannot be seen.
  if (isBelow || isAbove || lineage.at(-1) !== ROOT_CGROUP_ID) return;
  const at = findCgroups(new Set([hooks]), findCgroup2() ?? path).get(hooks);
  throw new FairleadError(
    'OTHER_CGROUP',
    `sockets of ${path} are not translated, so there is nothing to bypass: the hooks serve ${at ?? `the cgroup with id ${hooks}`}; name a cgroup below it`,
  );
}

/** undefined: it is gone. */
function hooksCgroup(path: string): bigint | undefined {
  const link = openPinnedLink(path);
  try {
    return link.cgroupId || undefined;
  } finally {
    link.close();
  }
}

interface BypassRow {
  readonly id: string;
  /** undefined: this mount shows no such cgroup. */
  readonly path: string | undefined;
  readonly state: 'bypassed' | 'gone' | 'not visible here';
}

/** Only a mount of the whole hierarchy tells that a cgroup is gone. */
function bypassRows(ids: readonly bigint[]): readonly BypassRow[] {
  const root = findCgroup2();
  const paths = root === undefined ? new Map() : findCgroups(new Set(ids), root);
  const missing =
    root !== undefined && cgroupId(root) === ROOT_CGROUP_ID ? 'gone' : 'not visible here';
  return ids.map((id) => ({
    id: String(id),
    path: paths.get(id),
    state: paths.has(id) ? 'bypassed' : missing,
  }));
}

const COLUMNS: readonly Column<BypassRow>[] = [
  { title: 'ID', cell: ({ id }) => id },
  { title: 'STATE', cell: ({ state }) => state },
  { title: 'PATH', cell: ({ path }) => path ?? '-' },
];

function listText(ids: readonly bigint[], format: OutputFormat): Promise<string> | string {
  const rows = bypassRows(ids);
  if (format.kind !== 'table') {
    return machine({ apiVersion: 'fairlead.io/v1', kind: 'BypassList', items: rows }, format);
  }
  const options = { isWide: false, hasHeaders: true, width: terminalWidth() };
  return rows.length === 0 ? 'No cgroups are bypassed' : table(rows, COLUMNS, options).text;
}
