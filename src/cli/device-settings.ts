// SPDX-License-Identifier: Apache-2.0
// The settings of the node's devices: which ones get programs, in which order, and which lead to pods.
import type { Config } from '../config/types.ts';
import type { DataplaneSettings } from '../instance/dataplanes.ts';
import { interfaceDetector } from '../plan/decide/node-context.ts';

/** undefined: --devices is none. */
export function deviceSettings({
  own,
  plan,
}: Pick<Config, 'own' | 'plan'>): DataplaneSettings['devices'] {
  if (own.devices.includes('none')) return undefined;
  const podDevices = interfaceDetector(plan);
  return {
    policy: { patterns: own.devices, podDevices },
    order: own.tcOrder,
    early: {
      xdp: own.xdp,
    },
  };
}
