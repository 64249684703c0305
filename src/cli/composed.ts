// SPDX-License-Identifier: Apache-2.0
// The dataplanes that an agent composes (dataplanes.ts opens them), for commands that explain without one.

import type { Engine } from '../config/types.ts';
import {
  bpfCapabilities,
  type Capabilities,
  IPTABLES,
  NFTABLES,
  userspaceCapabilities,
} from '../engines/capabilities.ts';
import type { DataplaneSettings } from '../instance/dataplanes.ts';

/** In the order in which they are asked to serve a frontend. */
export const composed = ({
  engine,
  devices,
}: Pick<DataplaneSettings, 'devices'> & { readonly engine: Engine }): readonly Capabilities[] => {
  if (engine === 'userspace') return [userspaceCapabilities('port-map')];
  if (engine === 'iptables') return [IPTABLES];
  if (engine === 'nftables') return [NFTABLES];
  return [bpfCapabilities({ packets: devices !== undefined })];
};
