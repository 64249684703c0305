// SPDX-License-Identifier: Apache-2.0
// Connected UDP sockets whose backend is gone, and an agent that may have descriptors of their programs: they are connected
// again, and no program notices. On one bridge with both backends, where packets of pods do not pass the node.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';
import { errorsOf, heldPrograms, RECOVERY_MS } from './support.ts';
import { KINDS, udpServices, words } from './udp-services.ts';

let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent | undefined;
const held = heldPrograms(() => node);
const { put, putOther, answeredBy } = udpServices(() => node);

beforeAll(async () => {
  node = await startOneNode(['a', 'b'], ['client', 'second']);
  put('a');
  putOther('a');
});
afterEach(() => agent?.kill());
afterAll(() => node?.remove());

const became = (state: object): Promise<void> =>
  untilHolds(
    async () => expect((await node.status()).staleSockets).toMatchObject(state),
    RECOVERY_MS,
  );

test.each(KINDS)('%s: of a pod and of the node', async (kind) => {
  put('a');
  agent = await node.startAgent();
  await answeredBy('a');
  const [a] = node.pods('a');
  const direct = held(['udp', a!.ipv4, 8080, 2]);
  const sockets = [held(['udp', ...words(kind), 3]), held(['udp', ...words(kind), 3], node.self)];
  await direct.says('held 2');
  for (const each of sockets) await each.says('held 3');
  put('b');
  await became({ connected: 6, destroyed: [], served: 0, refused: 0 });
  for (const each of sockets) expect([await each.exchange(), errorsOf(each)]).toEqual([3, []]);
  expect(await direct.exchange()).toBe(2);
});

test('without a backend those of the node wait, and go on with the next one', async () => {
  put('a');
  agent = await node.startAgent();
  await answeredBy('a');
  const own = held(['udp', ...words('IPv4'), 3], node.self);
  await own.says('held 3');
  put();
  await became({ waiting: 3, connected: 0, destroyed: [] });
  put('b');
  await became({ waiting: 0, connected: 3, destroyed: [] });
  expect([await own.exchange(), errorsOf(own)]).toEqual([3, []]);
});
