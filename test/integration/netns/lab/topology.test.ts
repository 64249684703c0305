// SPDX-License-Identifier: Apache-2.0
// The test topology itself, without an agent: pods reach each other, and it does not outlive its owner.
import { existsSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { listProcesses } from '../../../../src/sys/cgroup.ts';
import { start } from '../../../../src/sys/exec.ts';
import { ownNamespaces, removeLeftovers } from '../../../../tools/lab/ownership.ts';
import { startServer, toolPath } from '../../../../tools/lab/sandbox.ts';
import { buildTopology, type Topology } from '../../../../tools/lab/topology.ts';
import { startClient } from '../../../../tools/lab/traffic.ts';
import { leftoversOf } from '../../../support/leftovers.ts';
import { until } from '../../../support/until.ts';

let topology: Topology | undefined;
afterEach(() => topology?.remove());

test('ten pods on two nodes each have a namespace', async () => {
  const pods = ['a', 'b', 'c', 'd', 'e'];
  topology = await buildTopology([
    { name: 'n1', pods },
    { name: 'n2', pods },
  ]);
  expect(ownNamespaces(topology.prefix)).toHaveLength(13);
});

test('pods talk within a node and across nodes, in every kind of socket', async () => {
  topology = await buildTopology([
    { name: 'n1', pods: ['client', 'near'] },
    { name: 'n2', pods: ['far'] },
  ]);
  const [sandbox, near] = topology.nodes[0]!.pods;
  const far = topology.nodes[1]!.pods[0]!;
  await Promise.all([near!, far].map((pod) => startServer(pod, [8080])));
  const client = await startClient(sandbox!);
  for (const pod of [near!, far]) {
    for (const address of [pod.ipv4, pod.ipv6, `::ffff:${pod.ipv4}`]) {
      for (const kind of [
        { protocol: 'TCP' },
        { protocol: 'UDP' },
        { protocol: 'UDP', isConnected: true },
      ] as const) {
        const answer = await client.once({ address, port: 8080, ...kind });
        expect(answer).toMatchObject({ kind: 'answered', backend: pod.name });
        const seen = address.startsWith('fd') ? sandbox!.ipv6 : sandbox!.ipv4;
        expect(answer).toMatchObject({ clientSeen: { address: seen } });
      }
    }
  }
});

test('errors contain the kernel’s message', async () => {
  topology = await buildTopology([{ name: 'n1', pods: ['client', 'idle'] }]);
  const [sandbox, idle] = topology.nodes[0]!.pods;
  const client = await startClient(sandbox!);
  const nobody = { address: idle!.ipv4, port: 8080 } as const;
  const refused = { kind: 'failed', code: 'ECONNREFUSED' };
  expect(await client.once({ protocol: 'TCP', ...nobody })).toMatchObject(refused);
  const connected = { protocol: 'UDP', isConnected: true, ...nobody } as const;
  expect(await client.once(connected)).toMatchObject(refused);
  const lost = await client.once({ protocol: 'UDP', ...nobody }, 100);
  expect(lost).toMatchObject({ kind: 'failed', code: 'TIMEOUT' });
  const nowhere = await client.once({ protocol: 'TCP', address: '10.96.0.10', port: 80 });
  expect(nowhere).toMatchObject({ kind: 'failed', code: 'EHOSTUNREACH' });
});

test('removal deletes processes, namespaces, cgroups and files, and is idempotent', async () => {
  const own = await buildTopology([{ name: 'n1', pods: ['a'] }]);
  await startServer(own.nodes[0]!.pods[0]!, [8080]);
  const [node] = own.nodes;
  expect(listProcesses(node!.cgroup)).toHaveLength(1);
  own.remove();
  own.remove();
  expect(leftoversOf(own)).toEqual([]);
});

/** A program that builds a topology and then ends in the given way. */
function startVictim(): {
  pid: number;
  prefix: Promise<string>;
  kill(signal: NodeJS.Signals): void;
} {
  const script = `
    const { buildTopology, exitOnSignals } = await import(${JSON.stringify(toolPath('lab/topology.js'))});
    exitOnSignals();
    const { prefix } = await buildTopology([{ name: 'n1', pods: ['a', 'b'] }]);
    process.on('SIGUSR2', () => { throw new Error('unforeseen'); });
    console.log(prefix);
    setInterval(() => {}, 1000);
  `;
  let say: (prefix: string) => void = () => undefined;
  const prefix = new Promise<string>((resolve) => {
    say = resolve;
  });
  const args = ['--input-type=module', '-e', script];
  const child = start(process.execPath, args, { onStdoutLine: say });
  return { pid: child.pid, prefix, kill: child.kill };
}

test.each(['SIGINT', 'SIGTERM', 'SIGUSR2'] as const)(
  'a builder ended by %s (SIGUSR2: uncaught error) removes everything',
  async (signal) => {
    const victim = startVictim();
    const prefix = await victim.prefix;
    expect(ownNamespaces(prefix)).toHaveLength(3);
    victim.kill(signal);
    await until(() => ownNamespaces(prefix).length === 0, { what: 'namespaces gone' });
    await until(() => !existsSync(`/run/fairlead-demo/${prefix}`), { what: 'record gone' });
  },
);

test('the next builder removes exactly what one killed with SIGKILL left', async () => {
  const victim = startVictim();
  const prefix = await victim.prefix;
  topology = await buildTopology([{ name: 'n1', pods: ['mine'] }]);
  const mine = ownNamespaces(topology.prefix);
  expect(removeLeftovers()).not.toContain(prefix);
  victim.kill('SIGKILL');
  // Another run on this machine may be the next builder.
  await until(
    () => {
      removeLeftovers();
      return ownNamespaces(prefix).length === 0 && !existsSync(`/run/fairlead-demo/${prefix}`);
    },
    { what: 'leftovers to be removed' },
  );
  expect(ownNamespaces(topology.prefix)).toEqual(mine);
});
