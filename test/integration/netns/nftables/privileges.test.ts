// SPDX-License-Identifier: Apache-2.0
// The capabilities that the chart gives to an agent with rules are enough to take over from one with eBPF, and to remove that.
import { existsSync, readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ownPaths, runCommand, startAgent } from '../../../../tools/lab/agent.ts';
import { service, target } from '../../../support/builders.ts';
import { routeServices } from '../../../support/iptables/routed-node.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';

const WITHOUT_PERFMON = ['setpriv', '--bounding-set=-all,+bpf,+net_admin,+net_raw'];

test('without PERFMON: nftables serves, and what eBPF has left is removed', async () => {
  const node = await startOneNode(['web-1']);
  const { bpfRoot } = node.instance;
  try {
    await routeServices(node);
    node.manifests.put('web.yaml', service('web', { n: 10 }, node.servers));
    const before = await startAgent(node.instance, ['--engine', 'bpf']);
    await before.stop();
    expect(readdirSync(bpfRoot)).not.toEqual([]);
    const reduced = { ...node.instance, wrapper: WITHOUT_PERFMON };
    const agent = await startAgent(reduced, ['--engine', 'nftables']);
    try {
      const left = (): boolean => existsSync(bpfRoot) && readdirSync(bpfRoot).length > 0;
      await untilHolds(() => expect(left()).toBe(false));
      const { hits } = await node.client().burst(target({ n: 10 }), { connections: 5 });
      expect(hits).toEqual({ 'web-1': 5 });
    } finally {
      await agent.stop();
      await runCommand(node.instance, ['cleanup', ...ownPaths(node.instance)]);
    }
  } finally {
    node.remove();
  }
});
