// SPDX-License-Identifier: Apache-2.0
// Network namespaces that end while they are searched one after another.
import { expect, test } from 'vitest';
import { searchEach } from '../../../../../../src/engines/bpf/kernel/stale-sockets/finder.ts';

test('one that has ended since it was listed is no failure; one that cannot be opened is', async () => {
  const none = { sockets: [], isWhole: true };
  expect(await searchEach(['/run/netns/ended', '/proc/0/ns/net'], [])).toEqual({
    ...none,
    failures: [],
  });
  const { failures } = await searchEach([`/${'long'.repeat(100)}`], []);
  expect(failures).toEqual([expect.stringContaining('ENAMETOOLONG')]);
});
