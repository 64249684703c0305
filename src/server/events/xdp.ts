// SPDX-License-Identifier: Apache-2.0
// Events about the Node: devices on which --xdp asks for XDP, and which do not have it.
import type { Clock } from '../../lib/clock.ts';
import type { AgentReaders } from '../metrics/readings.ts';
import type { EventRecorder } from './recorder.ts';

const INTERVAL_MS = 10_000;

export interface XdpEventsParts {
  readonly devices: AgentReaders['xdp'];
  readonly record: EventRecorder['record'];
  readonly nodeName: string;
  readonly clock: Pick<Clock, 'after'>;
}

/** Records an Event for each new reason of a device. @returns a function that ends it */
export function followXdp({ devices, record, nodeName, clock }: XdpEventsParts): () => void {
  let told: ReadonlyMap<string, string> = new Map();
  const look = (): void => {
    const refused = devices().filter(({ state }) => state === 'refused');
    for (const { device, reason } of refused) {
      if (told.get(device) === reason) continue;
      record(
        'XDPRefused',
        { kind: 'Node', name: nodeName },
        `XDP is not used on ${device}: ${reason}`,
      );
    }
    told = new Map([...told, ...refused.map(({ device, reason }) => [device, reason] as const)]);
    cancel = clock.after(INTERVAL_MS, look);
  };
  let cancel = clock.after(INTERVAL_MS, look);
  return () => cancel();
}
