// SPDX-License-Identifier: Apache-2.0
import type { FailedEntry } from '../../../src/engines/dataplane.ts';

/** By default a frontend that did not fit into its map. */
export const failedEntry = (over: Partial<FailedEntry> = {}): FailedEntry => ({
  id: {
    kind: 'frontend',
    frontend: { family: 'IPv4', address: '10.96.0.1', port: 80, protocol: 'TCP' },
  },
  text: 'frontend 10.96.0.1:80/TCP',
  code: 'MAP_FULL',
  map: 'fl_frontend4',
  reason: 'fl_frontend4 is full',
  service: 'default/web',
  ...over,
});
