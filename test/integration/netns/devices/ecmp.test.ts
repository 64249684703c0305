// SPDX-License-Identifier: Apache-2.0
// Three nodes behind a router that spreads packets over them, with Maglev and direct return: which node a packet comes by
// makes no difference, and neither does the loss of one.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { ConnectionRow } from '../../../../src/observe/connection-rows.ts';
import { run } from '../../../../src/sys/exec.ts';
import { insideNamespace } from '../../../../src/sys/netns.ts';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import { PORTS, VIPS } from '../../../support/packets/direct-return.ts';
import {
  BALANCERS,
  type Balancer,
  type EcmpCluster,
  startEcmpCluster,
} from '../../../support/packets/ecmp.ts';
import { type HeldFlow, type HeldFlows, openFlows } from '../../../support/packets/held-flows.ts';
import { until } from '../../../support/until.ts';

/** Of each family. */
const COUNT = { TCP: 40, UDP: 15 } as const;

let cluster: EcmpCluster;
let held: HeldFlows | undefined;

beforeAll(async () => {
  cluster = await startEcmpCluster();
});
afterAll(() => cluster?.stop());
afterEach(async () => {
  await held?.close();
  held = undefined;
});

/** A TCP connection may have the port of a UDP socket. */
const keyOf = ({ protocol, client }: Pick<HeldFlow, 'protocol' | 'client'>): string =>
  `${protocol} ${client}`;

/** The keys of the flows that a node has. */
async function flowsAt(name: Balancer): Promise<ReadonlySet<string>> {
  const { instance } = cluster.nodes[name];
  const args = ['connections', '-o', 'json', '--limit', '10000', ...ownPaths(instance)];
  const { code, stdout, stderr } = await runCommand(instance, args);
  expect(code, stderr).toBe(0);
  const { items } = JSON.parse(stdout) as { items: readonly ConnectionRow[] };
  return new Set(items.map(({ protocol, client }) => `${protocol} ${client}`));
}

const adoptedBy = async (names: readonly Balancer[]): Promise<number> => {
  const all = await Promise.all(names.map((name) => cluster.nodes[name].status()));
  return all.reduce((sum, { reasons }) => sum + (reasons['ADOPTED'] ?? 0), 0);
};

/** For the message of a failure; one of them may be away. */
const reasonsOf = (names: readonly Balancer[]) =>
  Promise.all(
    names.map((name) =>
      cluster.nodes[name].status().then(
        ({ reasons }) => reasons,
        () => name,
      ),
    ),
  );

const brokenOf = (flows: readonly HeldFlow[]) =>
  flows.flatMap(({ client, broken }) => (broken === undefined ? [] : [`${client}: ${broken}`]));

async function sentResets(namespace: string): Promise<number> {
  const [program = '', ...args] = insideNamespace(namespace, ['cat', '/proc/net/snmp']);
  const [names = [], values = []] = (await run(program, args)).stdout
    .split('\n')
    .filter((line) => line.startsWith('Tcp:'))
    .map((line) => line.split(' '));
  return Number(values[names.indexOf('OutRsts')]);
}

const isTcp = ({ protocol }: HeldFlow): boolean => protocol === 'TCP';

async function newOnesAreServed(): Promise<void> {
  for (const protocol of ['TCP', 'UDP'] as const) {
    for (const address of VIPS) {
      const target = { protocol, address, port: PORTS[protocol] };
      const tally = await cluster.client.burst(target, { connections: 100, concurrency: 10 });
      expect(tally.failures).toEqual({});
      expect(Object.keys(tally.hits).sort()).toEqual(['s1', 's2', 's3']);
    }
  }
}

const ofFamily = (flows: readonly HeldFlow[]): readonly string[] =>
  [...new Set(flows.map(({ protocol, family }) => `${protocol} ${family}`))].sort();

async function begin(forwarding: 'dsr' | 'snat'): Promise<HeldFlows> {
  await cluster.serve({ algorithm: 'maglev', forwarding });
  await cluster.spread(BALANCERS);
  held = await openFlows(cluster.client, cluster.addresses, COUNT);
  await held.round();
  return held;
}

const sumLost = ({ flows }: HeldFlows): number => flows.reduce((sum, { lost }) => sum + lost, 0);

/** While all talk. It is seen that the node is away before the router sends its packets to the others. */
async function loseOne(open: HeldFlows): Promise<void> {
  await open.during(async () => {
    const before = sumLost(open);
    await cluster.lose('n2');
    await until(() => sumLost(open) > before, 'datagrams to a lost node');
    await cluster.spread(['n1', 'n3']);
  });
}

async function restoreOne(open: HeldFlows): Promise<void> {
  await open.during(async () => {
    await cluster.restore('n2');
    await cluster.spread(BALANCERS);
  });
}

async function expectIntact(open: HeldFlows): Promise<void> {
  const before = sumLost(open);
  await open.round();
  expect(brokenOf(open.flows)).toEqual([]);
  expect(sumLost(open)).toBe(before);
  const why = JSON.stringify(await reasonsOf(BALANCERS));
  for (const { client, family, seen } of open.flows)
    expect([...seen], `${client}: ${why}`).toEqual([cluster.addresses[family]]);
}

/** The table knows the others: those of the node's own servers alone. */
async function expectNoRecords(names: readonly Balancer[], open: HeldFlows): Promise<void> {
  const known = await Promise.all(names.map(flowsAt));
  for (const [at, name] of names.entries()) {
    const own = `s${BALANCERS.indexOf(name) + 1}`;
    const recorded = open.flows.filter((flow) => known[at]?.has(keyOf(flow)));
    expect(recorded.filter(({ backend }) => backend !== own)).toEqual([]);
  }
}

test('direct return: one of three nodes is lost and comes back, and every flow keeps its backend', async () => {
  const open = await begin('dsr');
  await expectNoRecords(BALANCERS, open);
  await loseOne(open);
  await expectIntact(open);
  await expectNoRecords(['n1', 'n3'], open);
  await newOnesAreServed();
  await restoreOne(open);
  await expectIntact(open);
  await newOnesAreServed();
});

const resetsBySockets = async (): Promise<number> => {
  const all = await Promise.all(cluster.sockets.map(({ namespace }) => sentResets(namespace)));
  return all.reduce((sum, count) => sum + count, 0);
};

/** Each packet comes by one node of three, as it happens: after 20 lines one flow in a thousand misses a node. */
const ROUNDS = 20;

test('packets of each flow come by all three nodes in turn', async () => {
  const open = await begin('dsr');
  await cluster.alternate();
  const before = await resetsBySockets();
  const turned = await openFlows(cluster.client, cluster.addresses, COUNT);
  for (let said = 0; said < ROUNDS; said += 1) await Promise.all([open.round(), turned.round()]);
  await expectIntact(open);
  await expectIntact(turned);
  await expectNoRecords(BALANCERS, open);
  await expectNoRecords(BALANCERS, turned);
  expect(await resetsBySockets()).toBe(before);
  await turned.close();
  await newOnesAreServed();
});

// Last: a UDP socket that gets the port of one whose masqueraded flow is still there has that flow.
test('SNAT: connections do not go on at another node: their backend, which has seen another client, resets them', async () => {
  const open = await begin('snat');
  const n2 = await flowsAt('n2');
  const ofLost = open.flows.filter((flow) => n2.has(keyOf(flow)));
  const adopted = await adoptedBy(['n1', 'n3']);
  await loseOne(open);
  await open.round();
  const broken = open.flows.filter((flow) => flow.broken !== undefined);
  expect(broken).toEqual(expect.arrayContaining(ofLost.filter(isTcp)));
  expect(ofFamily(broken)).toEqual(['TCP 0', 'TCP 1']);
  // Who awaited an answer that the lost node had awaited as well sends nothing, and is told nothing.
  const reset = broken.filter((flow) => flow.broken !== 'TIMEOUT');
  expect(new Set(reset.map((flow) => flow.broken))).toEqual(new Set(['ECONNRESET']));
  expect(await adoptedBy(['n1', 'n3'])).toBe(adopted + reset.length);
  await newOnesAreServed();
});
