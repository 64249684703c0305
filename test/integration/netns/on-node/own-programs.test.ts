// SPDX-License-Identifier: Apache-2.0
// An agent that may not read names of programs, as the DaemonSet starts it, knows its own by their pins.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type Agent, startAgent } from '../../../../tools/lab/agent.ts';
import { service } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';

const UNPRIVILEGED = ['setpriv', '--bounding-set=-sys_admin,-sys_ptrace'];
let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent | undefined;

beforeAll(async () => {
  node = await startOneNode(['a'], ['client']);
  node.manifests.put('web.yaml', service('web', { n: 10 }, []));
});
afterEach(() => agent?.kill());
afterAll(() => node?.remove());

const others = async (): Promise<readonly string[]> =>
  ((await node.status()).onThisNode ?? [])
    .filter(({ topic }) => topic === 'other-programs')
    .map(({ what }) => what);

test('its own programs are none of others', async () => {
  agent = await startAgent({ ...node.instance, wrapper: UNPRIVILEGED }, []);
  expect(await others()).toEqual([]);
});
