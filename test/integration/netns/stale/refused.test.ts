// SPDX-License-Identifier: Apache-2.0
// Connected UDP sockets of pods whose backend is gone, and an agent that may not enter their network namespaces: their
// next datagram is refused. The backend still runs, so that what is not refused is answered.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type Agent, startAgent } from '../../../../tools/lab/agent.ts';
import { startOneNode } from '../../../support/node.ts';
import {
  mapIteratorRefusal,
  skipWithoutMapIterators,
} from '../../../support/programs/map-iterators.ts';
import { until, untilHolds } from '../../../support/until.ts';
import { errorsOf, heldPrograms, type Program, RECOVERY_MS } from './support.ts';
import { KINDS, OTHER, udpServices, words } from './udp-services.ts';

const UNPRIVILEGED = ['setpriv', '--bounding-set=-sys_admin,-sys_ptrace'];

let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent | undefined;
const held = heldPrograms(() => node);
const { put, putOther, rename, answeredBy } = udpServices(() => node);

beforeAll(async () => {
  node = await startOneNode(['a', 'b'], ['client', 'second']);
  put('a');
  putOther('a');
});
afterEach(() => agent?.kill());
skipWithoutMapIterators(mapIteratorRefusal());
afterAll(() => node?.remove());

const startUnprivileged = async (flags: readonly string[] = []): Promise<void> => {
  agent = await startAgent({ ...node.instance, wrapper: UNPRIVILEGED }, flags);
};

const refused = (count: number): Promise<void> =>
  untilHolds(
    async () => expect((await node.status()).staleSockets?.refused).toBe(count),
    RECOVERY_MS,
  );

const counted = async (): Promise<number> =>
  (await node.status()).reasons['REFUSED_STALE_SOCKET'] ?? 0;

/** Three sockets whose backend goes, and an agent that is started with these flags. */
async function threeLeft(flags: readonly string[] = []): Promise<Program> {
  put('a');
  await startUnprivileged(flags);
  await answeredBy('a');
  const sockets = held(['udp', ...words('IPv4'), 3]);
  await sockets.says('held 3');
  put('b');
  return sockets;
}

test.each(KINDS)('%s: the next datagram is refused, a new socket is served', async (kind) => {
  put('a');
  await startUnprivileged();
  await answeredBy('a');
  const before = await counted();
  const seldom = held(['udp', ...words(kind), 3]);
  await seldom.says('held 3');
  put('b');
  await refused(3);
  expect(await seldom.exchange()).toBe(0);
  expect(await counted()).toBe(before + 3);
  const again = held(['udp', ...words(kind), 3]);
  await again.says('held 3');
  // The same sockets, which the agent has named before.
  expect(await seldom.exchange('anew')).toBe(3);
});

test('a program that only sends is told, and its next socket gets another backend', async () => {
  put('a');
  await startUnprivileged();
  await answeredBy('a');
  const sender = held(['sender', ...words('IPv4')]);
  await sender.says('sending');
  put('b');
  await sender.says('ECONNREFUSED', RECOVERY_MS);
  await refused(0);
});

test('all others are left alone, and those of the node are destroyed', async () => {
  put('a');
  await startUnprivileged();
  await answeredBy('a');
  const [a] = node.pods('a');
  const others = [
    held(['unconnected', ...words('IPv4'), 2]),
    held(['unconnected', ...words('IPv6'), 2]),
    held(['udp', ...words('IPv4', OTHER), 2]),
    held(['udp', ...words('v4-mapped', OTHER), 2]),
    held(['udp', a!.ipv4, 8080, 2]),
    held(['udp', a!.ipv6, 8080, 2], node.sandboxes[1]),
  ];
  const victims = [held(['udp', ...words('IPv4'), 2]), held(['udp', ...words('IPv6'), 2])];
  const own = held(['udp', ...words('IPv4'), 2], node.self);
  for (const each of [...others, ...victims, own]) await each.says('held 2');
  put('b');
  await refused(4);
  await untilHolds(
    () => expect(errorsOf(own)).toEqual(['ECONNABORTED', 'ECONNABORTED']),
    RECOVERY_MS,
  );
  for (const each of others) expect([await each.exchange(), errorsOf(each)]).toEqual([2, []]);
  for (const each of victims) expect(await each.exchange()).toBe(0);
});

test('an endpoint that serves under another port name keeps its sockets', async () => {
  put('a');
  putOther('a');
  await startUnprivileged();
  await answeredBy('a');
  const waiting = held(['udp', ...words('IPv4'), 3]);
  await waiting.says('held 3');
  const witness = held(['udp', ...words('IPv4', OTHER), 1]);
  await witness.says('held 1');
  rename('a');
  await node.programmed();
  putOther('b');
  await refused(1);
  expect([await waiting.exchange(), await witness.exchange()]).toEqual([3, 0]);
  putOther('a');
});

test('without the agent they are refused as well', async () => {
  const seldom = await threeLeft();
  await refused(3);
  await agent?.kill();
  expect(await seldom.exchange()).toBe(0);
});

test('without programs on devices they are left, and counted', async () => {
  const seldom = await threeLeft(['--devices', 'none']);
  await untilHolds(async () => {
    const { refused: none, left = [] } = (await node.status()).staleSockets ?? {};
    expect([none, left.map(({ count }) => count)]).toEqual([0, [3]]);
  }, RECOVERY_MS);
  expect(await seldom.exchange()).toBe(3);
});

test('closed sockets are no longer looked for', async () => {
  const seldom = await threeLeft();
  await refused(3);
  seldom.child.kill('SIGKILL');
  await seldom.child.exited;
  const isNone = async (): Promise<boolean> => {
    putOther('b');
    await node.programmed();
    putOther('a');
    await node.programmed();
    return (await node.status()).staleSockets?.refused === 0;
  };
  await until(isNone, { what: 'a pass that finds none', timeoutMs: RECOVERY_MS });
});
