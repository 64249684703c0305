// SPDX-License-Identifier: Apache-2.0
// Events about the Node: devices on which --xdp asks for XDP, and which do not have it.
import type { Clock } from '../../lib/clock.ts';
import type { AgentReaders } from '../metrics/readings.ts';
import type { EventRecorder } from './recorder.ts';

const INTERVAL_MS = 10_000;

export interface RefusedDevicesParts {
  readonly devices: AgentReaders['earlyPaths'];
  readonly record: EventRecorder['record'];
  readonly nodeName: string;
  readonly clock: Pick<Clock, 'after'>;
}

/** Looks that may each find something new before it is told. */
const MAX_LOOKS = 6;

/**
 * Records one Event for all new reasons of devices, when no other has come for an interval: of Events with a reason of
 * their own for each, three are sent at once. @returns a function that ends it
 */
export function followRefusedDevices({
  devices,
  record,
  nodeName,
  clock,
}: RefusedDevicesParts): () => void {
  const known = new Map<string, string>();
  const untold = new Map<string, string>();
  let looks = 0;
  const note = (): boolean => {
    const fresh = devices().filter(
      ({ device, state, reason }) => state === 'refused' && known.get(device) !== reason,
    );
    for (const { device, reason } of fresh) {
      known.set(device, reason);
      untold.set(device, reason);
    }
    return fresh.length > 0;
  };
  const look = (): void => {
    looks += 1;
    if (!note() || looks >= MAX_LOOKS) {
      looks = 0;
      if (untold.size > 0) record('XDPRefused', { kind: 'Node', name: nodeName }, textOf(untold));
      untold.clear();
    }
    cancel = clock.after(INTERVAL_MS, look);
  };
  let cancel = clock.after(INTERVAL_MS, look);
  return () => cancel();
}

/** `XDP is not used on eth0, eth1: it lost frames; on eth2: no frame came in`. */
function textOf(reasons: ReadonlyMap<string, string>): string {
  const devices = new Map<string, string[]>();
  for (const [device, reason] of reasons)
    devices.set(reason, [...(devices.get(reason) ?? []), device]);
  const each = [...devices].map(([reason, names]) => `on ${names.join(', ')}: ${reason}`);
  return `XDP is not used ${each.join('; ')}`;
}
