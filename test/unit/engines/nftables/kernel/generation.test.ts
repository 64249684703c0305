// SPDX-License-Identifier: Apache-2.0
// While the kernel's generation shows that nobody else has changed tables, an audit reads nothing.
import { expect, test } from 'vitest';
import { familyTable } from '../../../../../src/engines/nftables/kernel/family-table.ts';
import type { SendBatch } from '../../../../../src/sys/netlink/nft/batch.ts';
import { memoryNftables } from '../../../../support/nftables/memory/dataplane.ts';
import { memoryNft } from '../../../../support/nftables/memory/nft.ts';
import { backend, clusterIp, planOf, servicePort } from '../../bpf/plans.ts';

function countingDataplane(send?: SendBatch) {
  const nft = memoryNft('IPv4');
  let messages = 0;
  const counted: SendBatch | undefined =
    send &&
    (async (batch) => {
      messages += 1;
      return send(batch);
    });
  const { dataplane } = memoryNftables({
    tables: [familyTable('IPv4', nft, counted)],
    generation: () => nft.commits() + messages,
  });
  const others = (): void => nft.writeAsOther('add chain ip fairlead theirs');
  return { dataplane, lists: nft.lists, others };
}

const web = (address: string) =>
  planOf(servicePort('web', [clusterIp('10.96.0.10')], [backend(address)]));

test('an audit reads the table only after others have changed one', async () => {
  const { dataplane, lists, others } = countingDataplane();
  await dataplane.sync(web('10.1.1.5'), 'all', []);
  // What an earlier agent has left.
  expect(lists()).toBe(1);
  await dataplane.sync(web('10.1.1.6'), ['default/web'], []);
  expect((await dataplane.audit(web('10.1.1.6'), [])).drift).toEqual([]);
  expect(lists()).toBe(1);
  others();
  const { drift } = await dataplane.audit(web('10.1.1.6'), []);
  expect([lists(), drift.length > 0]).toEqual([2, true]);
  await dataplane.audit(web('10.1.1.6'), []);
  expect(lists()).toBe(2);
});

test('what messages have written is read by the next audit, and by no later one', async () => {
  const { dataplane, lists } = countingDataplane(async () => undefined);
  await dataplane.sync(web('10.1.1.5'), 'all', []);
  await dataplane.sync(web('10.1.1.6'), ['default/web'], []);
  expect(lists()).toBe(1);
  // The table that nft lists lacks it: the messages were wrong, or it was not this kernel that they were for.
  expect((await dataplane.audit(web('10.1.1.6'), [])).drift.length).toBeGreaterThan(0);
  expect(lists()).toBe(2);
  await dataplane.audit(web('10.1.1.6'), []);
  expect(lists()).toBe(2);
});

test('a change does not hide what others have changed before it', async () => {
  const { dataplane, lists, others } = countingDataplane();
  await dataplane.sync(web('10.1.1.5'), 'all', []);
  others();
  await dataplane.sync(web('10.1.1.6'), ['default/web'], []);
  await dataplane.audit(web('10.1.1.6'), []);
  expect(lists()).toBe(2);
});
