// SPDX-License-Identifier: Apache-2.0
// The dataplanes that an agent composes (dataplanes.ts opens them), for commands that explain without one.
import { bpfCapabilities, type Capabilities, IPTABLES } from '../dataplane/capabilities.ts';
import type { DataplaneSettings } from './dataplanes.ts';

/** In the order in which they are asked to serve a frontend. */
export const composed = ({
  engine,
  devices,
}: Pick<DataplaneSettings, 'engine' | 'devices'>): readonly Capabilities[] => [
  engine === 'iptables' ? IPTABLES : bpfCapabilities({ packets: devices !== undefined }),
];
