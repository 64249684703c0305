// SPDX-License-Identifier: Apache-2.0
// The BPF dataplane of an agent: its table of connections and its programs begin as an earlier agent has left them, and
// grow.
import { existsSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';
import type { Family } from '../../../model/types.ts';
import { SYSTEM_CLOCK } from '../../../sys/clock.ts';
import { type BpfMap, openPinnedMap } from '../../../sys/native.ts';
import type { Dataplane } from '../../dataplane.ts';
import { digitOf } from '../conn/conn-table.ts';
import { FIRST_CONNECTIONS, firstConnections, MOST_CONNECTIONS } from '../conn/growth.ts';
import { capacityOf } from '../conn/sizes.ts';
import { ALL_FEATURES, canLeaveOut, NO_FEATURES } from '../features.ts';
import { encodeU32 } from '../layout/layout.ts';
import type { Features } from '../layout/packet-layout.ts';
import { decodeFeatures } from '../layout/packet-layout.ts';
import { mapPin } from '../layout/versions.ts';
import { devicePins } from './devices/device-pins.ts';
import { openGrowing } from './growing.ts';
import { pathsOf, pinFolder } from './loader/pins.ts';
import { oldGenerations } from './migration/generations.ts';
import { type BpfSettings, type OpenParts, openBpfDataplane } from './open.ts';

/** Throws FairleadError; then nothing is left attached that was not there before. */
export function openGrowingDataplane(
  settings: BpfSettings,
  parts: Omit<OpenParts, 'features' | 'look' | 'isTried'>,
): Promise<Dataplane> {
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
    async open({ IPv4: flows4, IPv6: flows6 }, features, look) {
      const sizes = { ...mapSizes, flows4, flows6 };
      const opened = await openBpfDataplane(
        { ...settings, mapSizes: sizes },
        { ...parts, features, look, isTried, totals },
      );
      isTried = true;
      return opened;
    },
    left: () => ({ IPv4: first('IPv4'), IPv6: first('IPv6') }),
    firstFeatures: firstFeatures(bpfRoot),
    ...{ limit, clock: SYSTEM_CLOCK, log: parts.log },
  });
}

/**
 * Of the largest table that an agent has left: of one that was killed while maps were migrated, connections may be in several.
 * Another version of fairlead may have left it. undefined: none has left any.
 */
export function connectionsLeft(bpfRoot: string, family: Family): number | undefined {
  const pins = [pinFolder(bpfRoot).maps, ...oldGenerations(bpfRoot)].flatMap((folder) =>
    pathsOf(folder, `fl_client${digitOf(family)}`),
  );
  return pins.length === 0 ? undefined : Math.max(...pins.map(capacityOfPin));
}

const capacityOfPin = (pin: string): number =>
  readPin(pin, ({ info }) => capacityOf(info.maxEntries));

/**
 * Those of the programs that an earlier agent has left attached; all if it has not noted them, or if the kernel gains nothing by
 * less. A node that forwards IPv6 is taken to have Services of IPv6, so that nothing is loaded twice at its first start.
 */
function firstFeatures(bpfRoot: string): Features {
  if (!canLeaveOut(release())) return ALL_FEATURES;
  if (devicePins(pinFolder(bpfRoot).links).length === 0)
    return { ...NO_FEATURES, ipv6: forwardsIpv6() };
  const noted = readPinned(bpfRoot, 'fl_packet', (map) => {
    const settings = map.get(encodeU32(0));
    return settings && decodeFeatures(settings);
  });
  return noted ?? ALL_FEATURES;
}

/** Where pods have IPv6, the network plugin has set it. Without IPv6 there is no such file. */
function forwardsIpv6(): boolean {
  try {
    return readFileSync('/proc/sys/net/ipv6/conf/all/forwarding', 'utf8').trim() !== '0';
  } catch {
    return false;
  }
}

function readPinned<T>(
  bpfRoot: string,
  name: Parameters<typeof mapPin>[0],
  read: (map: BpfMap) => T,
): T | undefined {
  const pin = join(pinFolder(bpfRoot).maps, mapPin(name));
  return existsSync(pin) ? readPin(pin, read) : undefined;
}

function readPin<T>(pin: string, read: (map: BpfMap) => T): T {
  const map = openPinnedMap(pin);
  try {
    return read(map);
  } finally {
    map.close();
  }
}
