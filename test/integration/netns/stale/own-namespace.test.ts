// SPDX-License-Identifier: Apache-2.0
// Connected UDP sockets whose backend is gone, and an agent that may neither iterate over maps nor enter the network
// namespaces of pods: it finds those of its own namespace, and says that it finds no others. The backend still runs.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startAgent } from '../../../../tools/lab/agent.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';
import { errorsOf, heldPrograms, objectsWithout, RECOVERY_MS, withObjects } from './support.ts';
import { udpServices, words } from './udp-services.ts';

let node: Awaited<ReturnType<typeof startOneNode>>;
const held = heldPrograms(() => node);
const { put, answeredBy } = udpServices(() => node);

beforeAll(async () => {
  node = await startOneNode(['a', 'b'], ['client']);
});
afterAll(() => node?.remove());

test('those of the node are destroyed; those of pods stay, and status says why', async () => {
  put('a');
  const wrapper = ['setpriv', '--bounding-set=-sys_admin,-sys_ptrace'];
  const agent = await withObjects(objectsWithout(node, 'find_stale.bpf.o'), () =>
    startAgent({ ...node.instance, wrapper }),
  );
  try {
    await answeredBy('a');
    const own = held(['udp', ...words('IPv4'), 2], node.self);
    const ofPod = held(['udp', ...words('IPv4'), 2]);
    for (const each of [own, ofPod]) await each.says('held 2');
    put('b');
    await untilHolds(
      () => expect(errorsOf(own)).toEqual(['ECONNABORTED', 'ECONNABORTED']),
      RECOVERY_MS,
    );
    expect(await ofPod.exchange()).toBe(2);
    const { limits, refused } = (await node.status()).staleSockets ?? {};
    expect([refused, limits]).toEqual([
      0,
      [
        expect.stringMatching(
          /^only those in the agent's own network namespace, and no others are refused: CAP_SYS_ADMIN is missing, and iterators over maps cannot be loaded \(.+\)$/,
        ),
        'UDP sockets are not connected again: CAP_SYS_PTRACE is missing',
      ],
    ]);
  } finally {
    await agent.kill();
  }
});
