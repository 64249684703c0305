// SPDX-License-Identifier: Apache-2.0
// What is known of a pod's connections before its server may be killed.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectionsOf } from '../../../../tools/lab/connections.ts';
import { startOneNode } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';

let node: Awaited<ReturnType<typeof startOneNode>>;

beforeAll(async () => {
  node = await startOneNode(['a', 'b']);
});
afterAll(() => node?.remove());

test.each(['ipv4', 'ipv6'] as const)(
  '%s: those of this pod alone, with those that its server has not accepted',
  async (family) => {
    const [a, b] = node.serverPrograms;
    const address = node.pods('a')[0]![family];
    expect([connectionsOf(a!.pid), connectionsOf(b!.pid)]).toEqual([0, 0]);
    const accepted = await node.client().open({ protocol: 'TCP', address, port: 8080 });
    expect(connectionsOf(a!.pid)).toBe(1);
    a!.kill('SIGSTOP');
    const waiting = node.client().once({ protocol: 'TCP', address, port: 8080 });
    await until(() => connectionsOf(a!.pid) === 2, 'a connection that waits for its server');
    expect(connectionsOf(b!.pid)).toBe(0);
    a!.kill('SIGCONT');
    expect(await waiting).toMatchObject({ kind: 'answered', backend: 'a' });
    await accepted.close();
    await until(() => connectionsOf(a!.pid) === 0, 'both to end');
  },
);
