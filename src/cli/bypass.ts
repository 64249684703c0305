// SPDX-License-Identifier: Apache-2.0
// `fairlead bypass`: cgroups whose sockets are left alone (meshes, VMs, anything that must see the
// Service address itself). Kept in a pinned map, so it outlives the agent.
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { DEFAULT_BPF_ROOT } from '../config/instance-paths.ts';
import { pinFolder } from '../dataplane/bpf/loader/pins.ts';
import { SKIPPED_CGROUPS_OFFSET } from '../dataplane/bpf/maps/layout.ts';
import { FairleadError } from '../errors.ts';
import { type BpfMap, fileSystemType, openPinnedMap } from '../sys/native.ts';
import { print } from './output.ts';

const CGROUP2_MAGIC = 0x63677270;
const ASKED_FOR = Uint8Array.of(1, 0, 0, 0);

interface BypassOptions {
  readonly bpfRoot: string;
}

export function bypassCommand(): Command {
  const command = new Command('bypass').description('cgroups whose sockets are not translated');
  const sub = (name: string, description: string): Command =>
    command
      .command(name)
      .description(description)
      .option('--bpf-root <dir>', "the instance's pins", DEFAULT_BPF_ROOT);
  sub('add', 'leave the sockets of this cgroup and those below it alone')
    .argument('<cgroup>', 'a cgroup v2 directory below --cgroup-root')
    .action((path: string, options: BypassOptions) => {
      const id = cgroupId(path);
      withSkips(options.bpfRoot, (skips) => skips.put(key(id), ASKED_FOR));
      print(`bypass ${path} (cgroup id ${id})`);
    });
  sub('remove', 'translate its sockets again')
    .argument('<cgroup>', 'the directory, or the id that list shows')
    .action((path: string, options: BypassOptions) => {
      const id = /^\d+$/.test(path) ? BigInt(path) : cgroupId(path);
      if (!withSkips(options.bpfRoot, (skips) => skips.delete(key(id)))) {
        throw new FairleadError('NOT_FOUND', `cgroup ${path} (id ${id}) is not bypassed`);
      }
      print(`no longer bypassed: ${path}`);
    });
  sub('list', 'ids of bypassed cgroups').action((options: BypassOptions) => {
    const ids = withSkips(options.bpfRoot, readIds);
    print(ids.length === 0 ? 'none' : ids.join('\n'));
  });
  return command;
}

/** A cgroup's id is the inode number of its directory. */
function cgroupId(path: string): bigint {
  if (!existsSync(path) || fileSystemType(path) !== CGROUP2_MAGIC) {
    throw new FairleadError('NOT_CGROUP2', `${path} is not a directory of a cgroup v2 hierarchy`);
  }
  return statSync(path, { bigint: true }).ino;
}

const key = (id: bigint): Uint8Array => new Uint8Array(new BigUint64Array([id]).buffer);

function readIds(skips: BpfMap): readonly string[] {
  const { keys, count } = skips.readAll();
  const view = new DataView(keys.buffer, keys.byteOffset, keys.byteLength);
  return Array.from({ length: count }, (_, index) => String(view.getBigUint64(index * 8, true)));
}

/** Runs `use` on the map of opt-outs, then tells the programs how many there are: 0 saves them the look-up. */
function withSkips<T>(bpfRoot: string, use: (skips: BpfMap) => T): T {
  const { maps } = pinFolder(bpfRoot);
  if (!existsSync(join(maps, 'fl_cgroup_skip'))) {
    throw new FairleadError(
      'NOT_FOUND',
      `no maps are pinned below ${bpfRoot}: start the agent once first`,
    );
  }
  const skips = openPinnedMap(join(maps, 'fl_cgroup_skip'));
  const runtimeFlags = openPinnedMap(join(maps, 'fl_runtime'));
  try {
    const result = use(skips);
    new DataView(runtimeFlags.mmap()).setUint32(
      SKIPPED_CGROUPS_OFFSET,
      skips.readAll().count,
      true,
    );
    return result;
  } finally {
    skips.close();
    runtimeFlags.close();
  }
}
