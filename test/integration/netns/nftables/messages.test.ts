// SPDX-License-Identifier: Apache-2.0
// What this agent sends to the kernel by itself is what nft would have sent: nft prints it letter by letter as it is rendered,
// for every state of every story and for random Services. A transaction that is refused leaves everything as it was.
import { closeSync, openSync } from 'node:fs';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { messagesOf } from '../../../../src/engines/nftables/kernel/messages/transaction.ts';
import { NFT_FAMILY, TABLE } from '../../../../src/engines/nftables/rules/names.ts';
import { emptyTable, parseTable } from '../../../../src/engines/nftables/rules/parse.ts';
import type { HeldTable, Ruleset } from '../../../../src/engines/nftables/rules/types.ts';
import { applyDiff } from '../../../../src/engines/nftables/state/apply.ts';
import type { TableDiff } from '../../../../src/engines/nftables/state/diff.ts';
import { scriptOf } from '../../../../src/engines/nftables/state/script.ts';
import { FAMILIES, type Family } from '../../../../src/model/types.ts';
import { run } from '../../../../src/sys/exec.ts';
import { openNetlink } from '../../../../src/sys/native.ts';
import { createNftSocket, type NftSocket } from '../../../../src/sys/netlink/nft/batch.ts';
import { STORIES } from '../../../conformance/conformance.ts';
import { readStories, type Story } from '../../../conformance/story.ts';
import { drawn, storyOf } from '../../../support/fixture/histories.ts';
import { transactionsOf } from '../../../support/nftables/transactions.ts';
import { SEED } from '../../../support/random.ts';
import { makeNetns, type TestResource } from '../../native/support/resources.ts';

let namespace: TestResource;
let netns: number;
let socket: NftSocket;

beforeAll(() => {
  namespace = makeNetns();
  netns = openSync(namespace.path, 'r');
  socket = createNftSocket(({ protocol }) => openNetlink({ protocol, netns }));
});
afterAll(() => {
  socket.close();
  closeSync(netns);
  namespace.release();
});

const nft = (args: readonly string[], stdin = '') =>
  run('nsenter', [`--net=${namespace.path}`, 'nft', ...args], { stdin });

async function held(family: Family): Promise<HeldTable> {
  const { stdout } = await nft(['-y', 'list', 'table', NFT_FAMILY[family], TABLE]);
  return parseTable(stdout);
}

/** Chains and maps that Services share are nft's to write: they come first here. */
function divided(diff: TableDiff, { chains }: Ruleset): readonly [TableDiff, TableDiff] {
  const isShared = ([name]: readonly [string, unknown]): boolean => chains.has(name);
  const isMap = ([name]: readonly [string, unknown]): boolean => name.startsWith('endpoints-');
  const isOwn = (one: readonly [string, unknown]): boolean => !isShared(one);
  const areFirst = diff.addedChains.some(([, hook]) => hook !== '');
  const shared: TableDiff = {
    emptied: diff.emptied.filter((name) => chains.has(name)),
    ...{ removedChains: [], removedSets: [], removedElements: [], removedForeign: [] },
    addedChains: diff.addedChains.filter(isShared),
    addedSets: diff.addedSets.filter((one) => areFirst || isMap(one)).filter(isSharedSet),
    addedElements: [],
    filled: diff.filled.filter(isShared),
  };
  const own: TableDiff = {
    ...diff,
    emptied: diff.emptied.filter((name) => !chains.has(name)),
    addedChains: diff.addedChains.filter(isOwn),
    addedSets: diff.addedSets.filter((one) => !shared.addedSets.includes(one)),
    filled: diff.filled.filter(isOwn),
  };
  return [shared, own];
}

const isSharedSet = ([name]: readonly [string, unknown]): boolean => !name.startsWith('affinity-');

/** What only nft writes: with weights, numbers of backends are ranges. */
const isForNft = ({ filled }: TableDiff): boolean =>
  filled.some(([, rules]) => / map \{|\d-\d+ : goto/.test(rules));

async function expectSame(family: Family, stories: readonly Story[]): Promise<number> {
  let sent = 0;
  for (const story of stories) {
    const before = emptyTable();
    for (const { diff, held: after, ruleset } of transactionsOf(story, family)) {
      const [shared, own] = divided(diff, ruleset);
      const script = scriptOf(shared, family, before.chains.size > 0);
      if (script !== '') expect((await nft(['-f', '-'], script)).stderr).toBe('');
      applyDiff(before, shared);
      const messages = messagesOf(own, family, before);
      expect(messages === undefined, scriptOf(own, family, true)).toBe(isForNft(own));
      if (messages === undefined) await nft(['-f', '-'], scriptOf(own, family, true));
      else if (messages.length > 0)
        expect(await socket.send(messages), JSON.stringify(own)).toBe(undefined);
      sent += messages?.length ?? 0;
      expect(await held(family), scriptOf(own, family, true)).toEqual(after);
      applyDiff(before, own);
    }
    await nft(['delete', 'table', NFT_FAMILY[family], TABLE]);
  }
  return sent;
}

test.each(FAMILIES)('the Services of every story: %s', async (family) => {
  const stories = STORIES.flatMap((file) => readStories(file));
  expect(await expectSame(family, stories)).toBeGreaterThan(40);
});

test.each(FAMILIES)('random Services: %s', async (family) => {
  const drawings = fc.sample(drawn, { numRuns: 40, seed: SEED });
  expect(await expectSame(family, drawings.map(storyOf))).toBeGreaterThan(40);
});
