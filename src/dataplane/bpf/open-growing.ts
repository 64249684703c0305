// SPDX-License-Identifier: Apache-2.0
// The BPF dataplane of an agent: its table of connections is as large as the one that an earlier agent has left, and grows.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Family } from '../../model/types.ts';
import { SYSTEM_CLOCK } from '../../sys/clock.ts';
import { openPinnedMap } from '../../sys/native.ts';
import type { Dataplane } from '../dataplane.ts';
import { FIRST_CONNECTIONS, firstConnections, MOST_CONNECTIONS } from './conn/growth.ts';
import { capacityOf } from './conn/sizes.ts';
import { digitOf } from './conn/table.ts';
import { openGrowing } from './growing.ts';
import { oldGenerations } from './loader/migration/generations.ts';
import { pinFolder } from './loader/pins.ts';
import { mapPin } from './loader/versions.ts';
import { type BpfSettings, type OpenParts, openBpfDataplane } from './open.ts';

/** Throws FairleadError; then nothing is left attached that was not there before. */
export function openGrowingDataplane(settings: BpfSettings, parts: OpenParts): Promise<Dataplane> {
  const { bpfRoot, devices, mapSizes } = settings;
  const left = (family: Family): number => connectionsLeft(bpfRoot, family) ?? FIRST_CONNECTIONS;
  if (devices === undefined) {
    // The table is removed: it need not fit, and nothing is carried over.
    const sizes = { ...mapSizes, flows4: left('IPv4'), flows6: left('IPv6') };
    return openBpfDataplane({ ...settings, mapSizes: sizes }, parts);
  }
  const limit = mapSizes['flows'] ?? MOST_CONNECTIONS;
  const first = (family: Family): number => firstConnections(left(family), limit);
  let isTried = false;
  const totals = {};
  return openGrowing({
    async open({ IPv4: flows4, IPv6: flows6 }, look) {
      const sizes = { ...mapSizes, flows4, flows6 };
      const opened = await openBpfDataplane(
        { ...settings, mapSizes: sizes },
        { ...parts, look, isTried, totals },
      );
      isTried = true;
      return opened;
    },
    left: () => ({ IPv4: first('IPv4'), IPv6: first('IPv6') }),
    ...{ limit, clock: SYSTEM_CLOCK, log: parts.log },
  });
}

/**
 * Of the largest table that an agent has left: of one that was killed while maps were migrated, connections may be in several.
 * undefined: none has left any.
 */
export function connectionsLeft(bpfRoot: string, family: Family): number | undefined {
  const name = mapPin(`fl_client${digitOf(family)}`);
  const pins = [pinFolder(bpfRoot).maps, ...oldGenerations(bpfRoot)]
    .map((folder) => join(folder, name))
    .filter((pin) => existsSync(pin));
  return pins.length === 0 ? undefined : Math.max(...pins.map(capacityOfPin));
}

function capacityOfPin(pin: string): number {
  const map = openPinnedMap(pin);
  try {
    return capacityOf(map.info.maxEntries);
  } finally {
    map.close();
  }
}
