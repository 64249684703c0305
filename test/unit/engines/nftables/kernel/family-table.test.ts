// SPDX-License-Identifier: Apache-2.0
// Which transactions are messages and which are nft's, what becomes of messages that are refused, and when a table is read.
import { expect, test } from 'vitest';
import { familyTable } from '../../../../../src/engines/nftables/kernel/family-table.ts';
import { createRenderer } from '../../../../../src/engines/nftables/rows/render.ts';
import type { Plan } from '../../../../../src/plan/types.ts';
import type { NftMessage } from '../../../../../src/sys/netlink/nft/batch.ts';
import { DEFAULTS } from '../../../../support/nftables/transactions.ts';
import { backend, clusterIp, planOf, servicePort } from '../../bpf/plans.ts';

const web = (...addresses: readonly string[]) =>
  servicePort(
    'web',
    [clusterIp('10.96.0.10')],
    addresses.map((address) => backend(address)),
  );
const dns = servicePort('dns', [clusterIp('10.96.0.53', 53)], [backend('10.1.1.53', 53)]);

/** NFT_MSG_*. */
const [NEWCHAIN, DELCHAIN, NEWRULE, DELRULE, NEWSETELEM, DELSETELEM] = [3, 5, 6, 8, 12, 14];

function table(refuse: (messages: readonly NftMessage[]) => string | undefined = () => undefined) {
  const renderer = createRenderer(DEFAULTS);
  const scripts: string[] = [];
  const batches: (readonly number[])[] = [];
  let lists = 0;
  const list = async () => {
    lists += 1;
    return '';
  };
  const nft = { list, write: async (script: string) => void scripts.push(script) };
  const written = familyTable('IPv4', nft, async (messages) => {
    batches.push(messages.map(({ type }) => type));
    return refuse(messages);
  });
  return {
    write(plan: Plan, extent: 'audit' | 'all' | 'changes' = 'changes', isUntouched = false) {
      const ruleset = renderer.render(plan).find(({ family }) => family === 'IPv4');
      if (ruleset === undefined) throw new Error('nothing is rendered');
      return written.write(ruleset, extent, isUntouched);
    },
    adopt: () => written.adopt(),
    transactions: () => written.transactions(),
    takeScripts: () => scripts.splice(0),
    takeBatches: () => batches.splice(0),
    lists: () => lists,
  };
}

test('changes of Services are messages, in the order in which nft would write them', async () => {
  const { write, takeScripts, takeBatches, transactions } = table();
  await write(planOf(web('10.1.1.5', '10.1.1.6'), dns), 'all');
  expect([takeScripts().length, takeBatches()]).toEqual([1, []]);
  await write(planOf(web('10.1.1.5', '10.1.1.7'), dns));
  await write(planOf(web('10.1.1.5', '10.1.1.7', '10.1.1.8'), dns));
  await write(planOf(web('10.1.1.5', '10.1.1.7', '10.1.1.8')));
  await write(planOf(web('10.1.1.5', '10.1.1.7', '10.1.1.8'), dns));
  expect(takeBatches()).toEqual([
    [DELSETELEM, NEWSETELEM],
    expect.arrayContaining([DELRULE, NEWSETELEM, NEWRULE]),
    [DELRULE, DELSETELEM, DELSETELEM, DELCHAIN],
    [NEWCHAIN, NEWSETELEM, NEWSETELEM, NEWRULE],
  ]);
  expect([takeScripts(), transactions()]).toEqual([[], 5]);
});

test('what all Services share is written by nft', async () => {
  const { write, takeScripts, takeBatches } = table();
  await write(planOf(dns), 'all');
  takeScripts();
  // The first map of backends.
  await write(planOf(web('10.1.1.5', '10.1.1.6'), dns));
  expect([takeScripts().length, takeBatches()]).toEqual([1, []]);
});

test('messages that are refused are written by nft, over what is there', async () => {
  const { write, takeScripts, takeBatches, lists } = table(() => 'ENOENT');
  await write(planOf(web('10.1.1.5', '10.1.1.6'), dns), 'all');
  takeScripts();
  await write(planOf(web('10.1.1.5', '10.1.1.7'), dns));
  const [script = ''] = takeScripts();
  expect([takeBatches().length, lists()]).toEqual([1, 2]);
  // Somebody has removed the whole table.
  expect(script).toContain('add chain ip fairlead services');
  expect(script).toContain('10.1.1.7');
});

test('chains that the kernel cannot remove yet are emptied first', async () => {
  const { write, takeScripts, takeBatches, lists } = table((messages) =>
    messages.some(({ type }) => type === DELCHAIN) ? 'EBUSY' : undefined,
  );
  await write(planOf(web('10.1.1.5'), dns), 'all');
  takeScripts();
  await write(planOf(dns));
  expect(takeBatches()).toEqual([
    expect.arrayContaining([DELRULE, DELCHAIN]),
    expect.not.arrayContaining([DELCHAIN]),
  ]);
  expect([takeScripts(), lists()]).toEqual([[], 1]);
});

test('a table that nobody else has touched is not read again, neither by an audit nor after it was adopted', async () => {
  const { write, adopt, lists, takeScripts } = table();
  await adopt();
  await write(planOf(web('10.1.1.5')), 'all', true);
  expect([lists(), takeScripts().length]).toEqual([1, 1]);
  await write(planOf(web('10.1.1.5')), 'audit', true);
  expect([lists(), takeScripts()]).toEqual([1, []]);
  await write(planOf(web('10.1.1.5')), 'audit', false);
  expect(lists()).toBe(2);
});
