// SPDX-License-Identifier: Apache-2.0
// The range of the node's own connections -> the ports of masqueraded flows.
import { expect, test } from 'vitest';
import { portsBeside } from '../../../../../src/dataplane/bpf/packet/settings.ts';

const ALL = [1024, 65_535];
test.each([
  ['the default of Linux', [32_768, 60_999], ALL, [30_000, 60_999]],
  ['below the NodePorts', [10_000, 20_000], ALL, [10_000, 32_767]],
  ['few', [40_000, 40_001], ALL, [30_000, 40_001]],
  ['so many that 4,536 are left', [1024, 60_999], ALL, [1024, 60_999]],
  ['one more', [1024, 61_000], [61_000, 65_535], [1024, 61_000]],
  ['all', [1024, 65_535], [61_000, 65_535], [1024, 65_535]],
])('%s', (_, [first = 0, last = 0], snat, local) => {
  const { snatPorts, localPorts } = portsBeside({ first, last });
  expect([snatPorts.first, snatPorts.last]).toEqual(snat);
  expect([localPorts.first, localPorts.last]).toEqual(local);
});
