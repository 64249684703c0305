// SPDX-License-Identifier: Apache-2.0
// The range of the node's own connections -> the ports of masqueraded flows, and which of them are tried last.
import { expect, test } from 'vitest';
import { portsBeside } from '../../../../../src/engines/bpf/snat/ports.ts';

test.each([
  ['the default of Linux', [32_768, 60_999], [30_000, 60_999]],
  ['below the NodePorts', [10_000, 20_000], [10_000, 32_767]],
  ['few', [40_000, 40_001], [30_000, 40_001]],
  ['all', [1024, 65_535], [1024, 65_535]],
])('%s', (_, [first = 0, last = 0], local) => {
  const { snatPorts, localPorts } = portsBeside({ first, last });
  expect([snatPorts.first, snatPorts.last]).toEqual([1024, 65_535]);
  expect([localPorts.first, localPorts.last]).toEqual(local);
});
