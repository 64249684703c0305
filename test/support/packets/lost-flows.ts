// SPDX-License-Identifier: Apache-2.0
// The table of connections of a node without what is in it, as after a reboot: its agent need not run.
import { mapPath } from '../../../src/engines/bpf/kernel/loader/pins.ts';
import { CONN_SLOTS } from '../../../src/engines/bpf/layout/conn-layout.ts';
import { openPinnedMap } from '../../../src/sys/native.ts';

/** Of both families, the half-open ones too; returns how many there were. */
export function loseFlows(bpfRoot: string): number {
  let lost = 0;
  for (const name of ['fl_client4', 'fl_client6', 'fl_reply4', 'fl_reply6'] as const) {
    const map = openPinnedMap(mapPath(bpfRoot, name));
    const words = new Uint32Array(map.mmap());
    if (name.startsWith('fl_client')) {
      lost += words.filter((word, at) => word !== 0 && at % (CONN_SLOTS + 1) < CONN_SLOTS).length;
    }
    words.fill(0);
    map.close();
  }
  return lost;
}

/** How many there are. */
export function storedFlows(bpfRoot: string): number {
  let stored = 0;
  for (const name of ['fl_client4', 'fl_client6'] as const) {
    const map = openPinnedMap(mapPath(bpfRoot, name));
    const words = new Uint32Array(map.mmap());
    stored += words.filter((word, at) => word !== 0 && at % (CONN_SLOTS + 1) < CONN_SLOTS).length;
    map.close();
  }
  return stored;
}
