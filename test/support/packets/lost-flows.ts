// SPDX-License-Identifier: Apache-2.0
// The tables of flows of a node without what is in them, as after a reboot: its agent need not run.
import { LEG_MAPS } from '../../../src/dataplane/bpf/flows/kernel.ts';
import { mapPath } from '../../../src/dataplane/bpf/loader/pins.ts';
import { openPinnedMap } from '../../../src/sys/native.ts';

/** Of both families, the half-open ones too; returns how many legs they had. */
export function loseFlows(bpfRoot: string): number {
  let lost = 0;
  for (const name of LEG_MAPS) {
    const map = openPinnedMap(mapPath(bpfRoot, name));
    const { keys } = map.readAll();
    const { keySize } = map.info;
    for (let at = 0; at < keys.length; at += keySize) {
      if (map.delete(keys.slice(at, at + keySize))) lost += 1;
    }
    map.close();
  }
  return lost;
}
