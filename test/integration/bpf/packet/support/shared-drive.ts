// SPDX-License-Identifier: Apache-2.0
// One copy of the packet programs for all tests of a file, whose maps are emptied before each: to verify and load the programs takes
// longer than what most tests do with them.
import { afterAll, beforeEach } from 'vitest';
import type { PacketSettings } from '../../../../../src/dataplane/bpf/maps/packet-layout.ts';
import type { BpfMap } from '../../../../../src/sys/native.ts';
import { PacketDrive } from './packet-drive.ts';

/** Call it at the top of a file. */
export function sharedDrive(settings: Partial<PacketSettings> = {}): PacketDrive {
  const drive = new PacketDrive(settings);
  const empty = drive.object.maps
    // Constants of the programs are read-only.
    .filter((name) => !name.includes('.'))
    .map((name) => emptierOf(drive.object.map(name)));
  beforeEach(() => {
    for (const one of empty) one();
    drive.countFrontendsAnew();
    drive.putSettings(settings);
  });
  afterAll(() => drive.close());
  return drive;
}

/** Of the kernel's enum bpf_map_type: arrays, and those with a value for each processor. */
const ARRAYS: ReadonlySet<number> = new Set([2, 6]);
/** BPF_MAP_TYPE_SK_STORAGE. */
const SOCKET_STORAGE = 24;
const BPF_F_MMAPABLE = 1 << 10;

/** What makes a map as it was when it was created. */
function emptierOf(map: BpfMap): () => void {
  const { type, flags } = map.info;
  // Only programs can: and no test packet has a socket with a record.
  if (type === SOCKET_STORAGE) return () => undefined;
  if ((flags & BPF_F_MMAPABLE) !== 0) return () => new Uint8Array(map.mmap()).fill(0);
  if (!ARRAYS.has(type)) return () => map.deleteBatch(map.readAll().keys);
  const { keys, values } = map.readAll();
  const zeros = new Uint8Array(values.length);
  return () => map.putBatch(keys, zeros);
}
