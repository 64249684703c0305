// SPDX-License-Identifier: Apache-2.0
// Direct return between three nodes, with real sockets: who sees which client, what is on the wire, and what nodes do that
// do not know each other.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { encodeNodeAddress } from '../../../../src/engines/bpf/direct-return/direct-layout.ts';
import { mapPath } from '../../../../src/engines/bpf/kernel/loader/pins.ts';
import { DIRECT_PORT_OFFSET } from '../../../../src/engines/bpf/layout/layout.ts';
import type { ServiceRow } from '../../../../src/observe/service-rows.ts';
import { type Child, run, start } from '../../../../src/sys/exec.ts';
import { openPinnedMap } from '../../../../src/sys/native.ts';
import { insideNamespace } from '../../../../src/sys/netns.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import type { Answer } from '../../../../tools/lab/client/protocol.ts';
import { startServer } from '../../../../tools/lab/sandbox.ts';
import { askAgent } from '../../../support/fixture/proxies/ask-agent.ts';
import { PEER_METRICS, Scrapes } from '../../../support/http/scrape.ts';
import { SERVER_PORTS, type TestNode } from '../../../support/node.ts';
import {
  BALANCER,
  type DirectCluster,
  OUTSIDE,
  PORTS,
  startDirectCluster,
  VIPS,
} from '../../../support/packets/direct-return.ts';
import { compiled } from '../../../support/programs/compiled.ts';
import { TIMEOUT_MS, until, untilHolds } from '../../../support/until.ts';

const SUPPORT = fileURLToPath(new URL('../../../support', import.meta.url));
const TRANSPORTS = ['TCP', 'UDP'] as const;
const ALL = ['n1', 'n2', 'n3'] as const;
/** Enough for each of three servers to be chosen, all but once in 10^9 times. */
const TRIES = 60;
/** A server in the network of n2: its address is the node's own, at which Geneve arrives, too. */
const HOST = { name: 'host2', nodeName: 'n2', ipv4: '192.168.77.2', ipv6: 'fd00:77::2' };

let cluster: DirectCluster;

beforeAll(async () => {
  cluster = await startDirectCluster();
  await startServer({ ...cluster.nodes[1]!.self, name: HOST.name }, SERVER_PORTS);
});
afterAll(() => cluster?.stop());
beforeEach(() => cluster.writeNodes(ALL));

const target = (protocol: 'TCP' | 'UDP', family = 0) => ({
  ...{ protocol, address: VIPS[family] ?? '', port: PORTS[protocol] },
});

/** The client that each server has seen. */
async function seen(protocol: 'TCP' | 'UDP', family = 0): Promise<Record<string, string>> {
  const clients: Record<string, string> = {};
  for (let at = 0; at < TRIES; at += 1) {
    const answer: Answer = await cluster.outside.once(target(protocol, family));
    if (answer.kind === 'failed') throw new Error(`${protocol} ${family}: ${answer.code}`);
    clients[answer.backend] = answer.clientSeen.address;
    if (protocol === 'UDP') expect(answer.source?.address).toBe(VIPS[family]);
  }
  return clients;
}

const only = (at: number) => ({ endpoints: [{ pod: cluster.servers[at]! }] });

const reasonOf = async (node: TestNode, reason: string): Promise<number> =>
  (await node.status()).reasons[reason] ?? 0;

/** Longer than 64 KiB: what a card puts together (GRO) has at most that, and fits no more with Geneve around it. */
async function setGsoSize(namespace: string, device: string): Promise<void> {
  const program = compiled(join(SUPPORT, 'programs/gso-size.c'));
  const [nsenter = '', ...args] = insideNamespace(namespace, [program, '150000', device]);
  expect(await run(nsenter, args)).toMatchObject({ code: 0, stderr: '' });
}

interface Capture {
  readonly child: Child;
  readonly lines: readonly string[];
}

async function capture({ self }: TestNode, filter: string): Promise<Capture> {
  const lines: string[] = [];
  const argv = ['tcpdump', '-l', '-n', '-v', '-i', 'uplink', filter];
  const [program = '', ...args] = insideNamespace(self.namespace, argv);
  let isListening = false;
  const child = start(program, args, {
    onStdoutLine: (line) => lines.push(line),
    onStderrLine: (line) => {
      isListening ||= line.includes('listening on');
    },
  });
  await until(() => isListening, 'tcpdump');
  return { child, lines };
}

/** The first one may be answered by ICMP instead; those that the client sends after that it fragments. */
async function answersDatagram(family: number, size: number): Promise<void> {
  const to = target('UDP', family);
  const udp = await cluster.outside.open(to);
  const datagram = 'z'.repeat(size);
  await until(async () => {
    const answer = await udp.talk(datagram, to);
    return answer.kind === 'answered' && answer.text === datagram;
  }, 'an answer');
  await udp.close();
}

describe.each([0, 1])('family %i', (family) => {
  test.each(TRANSPORTS)('%s: every server sees the client, wherever it is', async (protocol) => {
    await cluster.serve();
    const client = OUTSIDE[family];
    expect(await seen(protocol, family)).toEqual({ s1: client, s2: client, s3: client });
  });

  test.each(TRANSPORTS)('%s: to a node without the annotation, the balancer', async (protocol) => {
    await cluster.serve();
    cluster.writeNodes(['n1', 'n2']);
    await cluster.programmed();
    const client = OUTSIDE[family];
    expect(await seen(protocol, family)).toEqual({ s1: client, s2: client, s3: BALANCER[family] });
  });

  test.each(TRANSPORTS)('%s: a server in the network of its node', async (protocol) => {
    const endpoints = [{ pod: HOST }];
    await cluster.serve({ endpoints, forwarding: 'snat' });
    expect(await seen(protocol, family)).toEqual({ host2: BALANCER[family] });
    await cluster.serve({ endpoints });
    expect(await seen(protocol, family)).toEqual({ host2: OUTSIDE[family] });
  });

  test('hybrid: TCP goes directly, UDP does not', async () => {
    await cluster.serve({ forwarding: 'hybrid', ...only(1) });
    expect(await seen('TCP', family)).toEqual({ s2: OUTSIDE[family] });
    expect(await seen('UDP', family)).toEqual({ s2: BALANCER[family] });
  });

  test('much of TCP in both directions, and datagrams larger than a packet', async () => {
    await cluster.serve(only(1));
    const text = 'x'.repeat(400_000);
    const tcp = await cluster.outside.open(target('TCP', family));
    expect(await tcp.talk(text, undefined, TIMEOUT_MS)).toMatchObject({
      kind: 'answered',
      backend: 's2',
      text,
    });
    await tcp.close();
    await answersDatagram(family, 2_000);
  });

  test('a datagram that fits the wire, but not with Geneve around it: the client is told', async () => {
    await cluster.serve(only(1));
    await answersDatagram(family, family === 0 ? 1_470 : 1_450);
  });

  test('tcpdump reads the request within Geneve, and the answer does not pass the balancer', async () => {
    await cluster.serve(only(1));
    const there = await capture(cluster.nodes[1]!, 'udp port 6081');
    const back = await capture(
      cluster.nodes[0]!,
      `src ${VIPS[family]} or src ${cluster.servers[1]![family === 0 ? 'ipv4' : 'ipv6']}`,
    );
    await seen('TCP', family);
    await untilHolds(() => {
      const text = there.lines.join('\n');
      expect(text).toMatch(/Geneve/);
      expect(text).toContain(`${OUTSIDE[family]}`);
      expect(text).toContain(`> ${VIPS[family]}.80`);
    });
    for (const { child } of [there, back]) child.kill('SIGINT');
    await Promise.all([there.child.exited, back.child.exited]);
    expect(back.lines.filter((line) => line !== '')).toEqual([]);
  });
});

test('packets that the kernel has put together, longer than a header can tell', async () => {
  await cluster.serve(only(1));
  const wire = cluster.nodes[0]!.self.namespace.replace(/n1$/, 'wire');
  await setGsoSize(cluster.machine.self.namespace, 'uplink');
  await setGsoSize(wire, 'n1');
  const before = await reasonOf(cluster.nodes[0]!, 'DIRECT_NOT_WRAPPED');
  const tcp = await cluster.outside.open(target('TCP'));
  const text = 'x'.repeat(2_000_000);
  const long = await capture(cluster.nodes[0]!, 'tcp and ip[2:2] = 0 and greater 65536');
  expect(await tcp.talk(text, undefined, TIMEOUT_MS)).toMatchObject({
    kind: 'answered',
    backend: 's2',
    text,
  });
  await tcp.close();
  await until(() => long.lines.length > 0, 'a long packet');
  long.child.kill('SIGINT');
  await long.child.exited;
  expect(await reasonOf(cluster.nodes[0]!, 'DIRECT_NOT_WRAPPED')).toBe(before);
});

test('what comes from a machine that is no Node is dropped and counted', async () => {
  await cluster.serve(only(1));
  const backend = cluster.nodes[1]!;
  const before = await reasonOf(backend, 'GENEVE_STRANGER');
  const scrapes = new Scrapes(backend.instance.sandbox);
  await scrapes.take();
  // n2 does not know n1 any more.
  cluster.writeNodes(ALL, { seenBy: [backend], without: 'n1' });
  await cluster.programmed();
  await scrapes.take();
  expect(scrapes.unmoved(PEER_METRICS)).toEqual([]);
  const answer = await cluster.outside.once(target('TCP'), 1_500);
  expect(answer).toMatchObject({ kind: 'failed', code: 'TIMEOUT' });
  expect(await reasonOf(backend, 'GENEVE_STRANGER')).toBeGreaterThan(before);
  cluster.writeNodes(ALL);
  await cluster.programmed();
  expect(await seen('TCP')).toEqual({ s2: OUTSIDE[0] });
});

/** Of the balancer, as somebody else would. */
function forgetPeers({ instance }: TestNode): void {
  const map = openPinnedMap(mapPath(instance.bpfRoot, 'fl_peer'));
  for (const address of ['192.168.77.2', 'fd00:77::2']) map.delete(encodeNodeAddress(address));
  map.close();
}

test('an audit tells that a node is not known any more, and repairs it', async () => {
  await cluster.serve(only(1));
  const [balancer] = cluster.nodes;
  const { instance } = balancer!;
  const audit = () => runCommand(instance, ['audit', '--run-dir', instance.runDir]);
  expect(await audit()).toMatchObject({ code: 0 });
  forgetPeers(balancer!);
  expect(await seen('TCP')).toEqual({ s2: BALANCER[0] });
  const { code, stdout } = await audit();
  expect(code).toBe(3);
  expect(stdout).toContain('peer 192.168.77.2 is missing');
  expect(stdout).toContain('peer fd00:77::2 is missing');
  expect(await audit()).toMatchObject({ code: 0 });
  expect(await seen('TCP')).toEqual({ s2: OUTSIDE[0] });
});

/** As with a node that is up before its agent: its kernel answers. */
function closePort({ instance }: TestNode): void {
  const map = openPinnedMap(mapPath(instance.bpfRoot, 'fl_runtime'));
  new DataView(map.mmap()).setUint16(DIRECT_PORT_OFFSET, 0, true);
  map.close();
}

test('a node whose kernel says that the port is closed: what begins is masqueraded', async () => {
  await cluster.serve(only(1));
  const [balancer, backend] = cluster.nodes;
  const before = await reasonOf(balancer!, 'DIRECT_ICMP');
  closePort(backend!);
  // The SYN that is lost is sent again after a second.
  const answer = await cluster.outside.once(target('TCP'), 5_000);
  expect(answer).toMatchObject({ backend: 's2', clientSeen: { address: BALANCER[0] } });
  expect(await reasonOf(balancer!, 'DIRECT_ICMP')).toBe(before + 1);
  expect(await seen('TCP')).toEqual({ s2: BALANCER[0] });
  forgetPeers(balancer!);
  for (const { instance } of [balancer!, backend!]) {
    await runCommand(instance, ['audit', '--run-dir', instance.runDir]);
  }
  expect(await seen('TCP')).toEqual({ s2: OUTSIDE[0] });
});

test('services and status say what becomes of it', async () => {
  await cluster.serve({ forwarding: 'hybrid' });
  const [balancer] = cluster.nodes;
  const rows = (await askAgent(balancer!.instance.runDir, '/v1/services')) as ServiceRow[];
  const said = rows
    .filter(({ kind, family }) => kind === 'LoadBalancer' && family === 'IPv4')
    .map(({ name, forwarding, usedForwarding }) => [name, forwarding, usedForwarding]);
  expect(said).toEqual([
    ['dns', 'hybrid', 'snat'],
    ['web', 'hybrid', 'dsr'],
  ]);
  const cookies = { sent: 'none', taken: ['none'] };
  expect((await balancer!.status()).directReturn).toEqual({ willing: 2, known: 2, cookies });
});
