// SPDX-License-Identifier: Apache-2.0
// What this agent sends to the kernel by itself is what nft would have sent: nft prints it letter by letter as it is rendered,
// for every state of every story and for random Services. A transaction that is refused leaves everything as it was.
import { closeSync, openSync } from 'node:fs';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  familyTable,
  TransactionError,
} from '../../../../src/engines/nftables/kernel/family-table.ts';
import { messagesOf } from '../../../../src/engines/nftables/kernel/messages/transaction.ts';
import { nftOf, type RunProgram } from '../../../../src/engines/nftables/kernel/nft.ts';
import { createRenderer } from '../../../../src/engines/nftables/rows/render.ts';
import { NFT_FAMILY, TABLE } from '../../../../src/engines/nftables/rules/names.ts';
import { emptyTable, parseTable } from '../../../../src/engines/nftables/rules/parse.ts';
import type { HeldTable, Ruleset } from '../../../../src/engines/nftables/rules/types.ts';
import { applyDiff } from '../../../../src/engines/nftables/state/apply.ts';
import type { TableDiff } from '../../../../src/engines/nftables/state/diff.ts';
import { serviceOfLine } from '../../../../src/engines/nftables/state/failure.ts';
import { scriptOf } from '../../../../src/engines/nftables/state/script.ts';
import { FAMILIES, type Family } from '../../../../src/model/types.ts';
import type { Plan } from '../../../../src/plan/types.ts';
import { run } from '../../../../src/sys/exec.ts';
import { openNetlink } from '../../../../src/sys/native.ts';
import { createNftSocket, type NftSocket } from '../../../../src/sys/netlink/nft/batch.ts';
import { STORIES } from '../../../conformance/conformance.ts';
import { readStories, type Story } from '../../../conformance/story.ts';
import { drawn, storyOf } from '../../../support/fixture/histories.ts';
import { DEFAULTS, transactionsOf } from '../../../support/nftables/transactions.ts';
import { SEED } from '../../../support/random.ts';
import { backend, clusterIp, planOf, servicePort } from '../../../unit/engines/bpf/plans.ts';
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

const web = (...addresses: readonly string[]) =>
  planOf(
    servicePort(
      'web',
      [clusterIp('10.96.0.10')],
      addresses.map((address) => backend(address)),
    ),
  );

/** A table of an agent that runs in the namespace. */
async function startTable() {
  const runNft: RunProgram = (_, args, options) => nft(args, String(options?.stdin ?? ''));
  const sent: number[] = [];
  const table = familyTable('IPv4', nftOf('IPv4', runNft), (messages) => {
    sent.push(messages.length);
    return socket.send(messages);
  });
  const renderer = createRenderer(DEFAULTS);
  const render = (plan: Plan): Ruleset => {
    const ruleset = renderer.render(plan).find(({ family }) => family === 'IPv4');
    if (ruleset === undefined) throw new Error('nothing is rendered');
    return ruleset;
  };
  const printed = async () => (await nft(['list', 'table', 'ip', TABLE])).stdout;
  await table.write(render(web('10.1.1.5', '10.1.1.6')), 'all', false);
  return { table, render, printed, sent };
}

test('a transaction of which one change is refused leaves everything, and names the Service', async () => {
  const { table, render, printed, sent } = await startTable();
  const before = await printed();
  const next = web('10.1.1.7', '10.1.1.8', '10.1.1.9');
  const ruleset = render(next);
  const [[key, fragment] = ['', undefined]] = ruleset.fragments;
  if (fragment === undefined) throw new Error('nothing is rendered');
  const missing = {
    ...{ set: 'service-ips', key: '10.96.0.99 . tcp . 80' },
    value: ' : goto service-AAAAAAAA-default/web/tcp/missing',
  };
  const broken = { ...fragment, elements: [...fragment.elements, missing] };
  const fragments = new Map([...ruleset.fragments, [key, broken]]);
  const error = await table.write({ ...ruleset, fragments }, 'changes', false).catch((one) => one);
  expect(error).toBeInstanceOf(TransactionError);
  expect([sent.length, serviceOfLine(error.line, next)]).toEqual([1, 'default/web']);
  expect(await printed()).toBe(before);
  // Answers to the refused batch are not taken for those of the next one.
  await table.write(ruleset, 'all', false);
  await table.write(render(web('10.1.1.7', '10.1.1.8', '10.1.1.10')), 'changes', false);
  expect([sent.length, (await printed()).includes('10.1.1.10')]).toEqual([2, true]);
  await nft(['delete', 'table', 'ip', TABLE]);
});

test('after somebody has removed the table, a change writes all of it', async () => {
  const { table, render, printed, sent } = await startTable();
  await nft(['delete', 'table', 'ip', TABLE]);
  await table.write(render(web('10.1.1.5', '10.1.1.7')), 'changes', false);
  const text = await printed();
  expect([sent.length, text.includes('10.1.1.7'), text.includes('nat-prerouting')]).toEqual([
    ...[1, true, true],
  ]);
  await nft(['delete', 'table', 'ip', TABLE]);
});
