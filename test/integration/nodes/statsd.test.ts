// SPDX-License-Identifier: Apache-2.0
// Programs that connect a UDP socket once and send for ever without a look at errors, as statsd's and syslog's clients do,
// while the only backend of their Service is replaced again and again: nothing is lost after a change. And resolvers, which
// wait for answers from the address that they are connected to.
import { cpSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Status } from '../../../src/observe/status.ts';
import { bpfObjectPath } from '../../../src/sys/package.ts';
import { Scrapes, STALE_POD_METRICS } from '../../support/http/scrape.ts';
import { type OtherNode, onEachProxy } from '../../support/nodes/other-node.ts';
import {
  type Sink,
  STATSD_PORT,
  type Statsd,
  type StatsdClient,
  statsdOn,
} from '../../support/nodes/statsd.ts';
import { untilHolds } from '../../support/until.ts';

const ADDRESS = '10.96.0.10';
const REPLACEMENTS = 20;
const MANY = 1_000;
/** Until a server that gets no CPU has counted what it has got. */
const UNDER_WAY_MS = 10_000;

const port = { name: 'http', port: STATSD_PORT, protocol: 'UDP' };
const SERVICE = { use: 'udp', patch: { spec: { ports: [{ ...port, nodePort: 30_125 }] } } };
const on = (backend: 'a' | 'b' | 'none') => ({
  use: `udp-${backend}`,
  patch: { ports: [port] },
});

interface Play {
  readonly node: OtherNode;
  readonly sinks: Readonly<Record<'a' | 'b', Sink>>;
}

/** How many datagrams of a phase did not come to this backend; negative: nothing was sent. */
async function lostBy(sink: Sink, client: StatsdClient, patienceMs = 300): Promise<number> {
  const { phase, sent } = await client.next();
  let lost = sent;
  await untilHolds(async () => {
    lost = sent - (await sink.count(phase));
    expect(lost).toBe(0);
  }, patienceMs).catch(() => undefined);
  return sent === 0 ? -1 : lost;
}

/** What a client loses between the moment that each change has taken effect and the next change. */
async function replaceAgainAndAgain({ node, sinks }: Play, client: StatsdClient): Promise<number> {
  let lost = 0;
  for (let round = 0; round < REPLACEMENTS; round++) {
    const backend = round % 2 === 0 ? 'b' : 'a';
    await node.put(on(backend));
    await client.next();
    await untilHolds(async () => expect(await lostBy(sinks[backend], client)).toBe(0));
    for (const _ of [1, 2]) lost += Math.abs(await lostBy(sinks[backend], client, UNDER_WAY_MS));
  }
  return lost;
}

/** @returns its clients and servers, once they run */
function play(
  node: OtherNode,
  clients: readonly (readonly [name: string, short: string])[],
): () => Statsd {
  let statsd: Statsd;
  let sinks: Play['sinks'];

  beforeAll(async () => {
    await node.serve([SERVICE, on('a')]);
    statsd = statsdOn(node);
    sinks = { a: await statsd.sink('A'), b: await statsd.sink('B') };
  });
  afterAll(() => statsd?.stop());

  test.each(clients)('%s: nothing is lost after a change', async (name, short) => {
    await node.put(on('a'));
    const client = await statsd.client(short, ADDRESS, 3);
    const what = `lost by statsd clients of ${name} after each of ${REPLACEMENTS} replacements`;
    // Once: another try would forget what was lost in this one.
    const lost = await replaceAgainAndAgain({ node, sinks }, client);
    await node.sees(what, '0', async () => String(lost));
    const asked = `answers to resolvers of ${name} after them, from the address of the Service`;
    await node.sees(asked, '3', async () => String(await client.ask()));
  });

  test.each(clients)('%s: served again after a time without a backend', async (_, short) => {
    await node.put(on('a'));
    const client = await statsd.client(short, ADDRESS, 3);
    await untilHolds(async () => expect(await lostBy(sinks.a, client)).toBe(0));
    await node.put(on('none'));
    // By eBPF sockets of the node stay connected to who had been the backend; A goes on here.
    const isLeft = node.proxy === 'eBPF' && short === 'n1';
    if (!isLeft) {
      await untilHolds(async () => expect(await lostBy(sinks.a, client)).toBeGreaterThan(0));
    }
    await node.put(on('b'));
    await untilHolds(async () => expect(await lostBy(sinks.b, client)).toBe(0));
  });

  test.each(clients)(`%s: ${MANY} sockets`, async (_, short) => {
    await node.put(on('a'));
    const client = await statsd.client(short, ADDRESS, MANY);
    await untilHolds(async () => expect(await client.ask()).toBe(MANY));
    await node.put(on('b'));
    await untilHolds(async () => expect(await client.ask()).toBe(MANY));
    await client.next();
    await untilHolds(async () => expect(await lostBy(sinks.b, client)).toBe(0));
  });
  return () => statsd;
}

const PODS = ['pods', 'p1'] as const;
const PROCESSES = ['processes of the node', 'n1'] as const;

onEachProxy('statsd', {}, (node) => void play(node, [PODS, PROCESSES]));

/** Without a descriptor of the programs, as in a container that does not see them. */
function withoutHolders(node: OtherNode): void {
  const before = process.env['FAIRLEAD_BPF_DIR'];
  beforeAll(() => {
    const folder = join(node.stage().cluster.directory, 'without-holders');
    cpSync(dirname(bpfObjectPath('sock.bpf.o')), folder, {
      recursive: true,
      filter: (path) => !path.endsWith('holders.bpf.o'),
    });
    process.env['FAIRLEAD_BPF_DIR'] = folder;
  });
  afterAll(() => {
    if (before === undefined) delete process.env['FAIRLEAD_BPF_DIR'];
    else process.env['FAIRLEAD_BPF_DIR'] = before;
  });
}

// Packets of pods are left.
onEachProxy('statsd-unprivileged', { proxies: ['eBPF'] }, (node) => {
  withoutHolders(node);
  const statsd = play(node, [PODS]);

  test('a scrape counts the sockets that are left to packets, until their backend is back', async () => {
    const scrapes = new Scrapes(node.stage().cluster.sandbox('n1'));
    const served = (count: number): Promise<void> =>
      untilHolds(async () =>
        expect(await scrapes.value('fairlead_stale_sockets_served')).toBe(count),
      );
    await node.put(on('a'));
    await served(0);
    const client = await statsd().client('p1', ADDRESS, 3);
    await untilHolds(async () => expect(await client.ask()).toBe(3));
    await node.put(on('b'));
    await untilHolds(async () =>
      expect(await scrapes.value('fairlead_stale_sockets_served')).toBeGreaterThanOrEqual(3),
    );
    await node.put(on('a'));
    await served(0);
    expect(scrapes.unmoved(STALE_POD_METRICS)).toEqual([]);
  });
});

// Devices of pods have no programs: nobody would translate such a packet, so the socket is destroyed as before.
const UPLINK = ['--devices', 'eth0'];
onEachProxy('statsd-no-device', { proxies: ['eBPF'], flags: UPLINK, on: ['n1'] }, (node) => {
  withoutHolders(node);

  test('sockets of pods whose packets pass no program are destroyed', async () => {
    await node.serve([SERVICE, on('a')]);
    const statsd = statsdOn(node);
    try {
      await statsd.sink('A');
      const client = await statsd.client('p1', ADDRESS, 3);
      await untilHolds(async () => expect(await client.ask()).toBe(3));
      await node.put(on('b'));
      await untilHolds(async () => {
        const { stdout } = await node.fairlead('n1', 'status', '-o', 'json');
        const { staleSockets } = JSON.parse(stdout) as Status;
        expect(staleSockets).toMatchObject({ served: 0 });
        expect(staleSockets?.destroyed).toMatchObject([{ protocol: 'UDP', count: 3 }]);
      });
    } finally {
      await statsd.stop();
    }
  });
});
