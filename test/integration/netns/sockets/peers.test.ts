// SPDX-License-Identifier: Apache-2.0
// The flows of a socket (bpf/socket/peers.h) as seen by programs: the source of replies, getpeername(), the
// backend that a UDP socket keeps, and the counts of `fairlead backends`.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pinFolder } from '../../../../src/engines/bpf/kernel/loader/pins.ts';
import type { BackendRow } from '../../../../src/observe/backend-rows.ts';
import { run, start } from '../../../../src/sys/exec.ts';
import { openPinnedMap } from '../../../../src/sys/native.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import type { Answer, SocketAddress, Target } from '../../../../tools/lab/client/protocol.ts';
import type { Manifest } from '../../../../tools/lab/manifests.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { type AddressKind, service, slices, svc, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { until, untilHolds } from '../../../support/until.ts';

const KINDS: readonly AddressKind[] = ['IPv4', 'IPv6', 'v4-mapped'];
const RECONNECT = fileURLToPath(new URL('../fixture/reconnect.mjs', import.meta.url));

const DISCONNECT = fileURLToPath(new URL('../fixture/disconnect.mjs', import.meta.url));
const CONNECT_LATER = fileURLToPath(new URL('../fixture/connect-later.mjs', import.meta.url));
const STREAM = fileURLToPath(new URL('../fixture/stream.c', import.meta.url));

/** UDP Services, each with a backend of its own: four times as many as a socket's own storage holds. */
const MANY = ['a', 'b', 'c', 'd']
  .flatMap((pod) => [8080, 8081, 5353].map((targetPort) => ({ pod, targetPort })))
  .map(({ pod, targetPort }, index) => ({
    ...{ name: `s${index + 1}`, pod, targetPort },
    spec: { n: 101 + index, port: 53, targetPort, protocol: 'UDP' as const },
  }));
/** UDP_PEERS in bpf/socket/types.h: how many flows of a socket count as open. */
const COUNTED = 3;
/** Two Services with the same backend. */
const TWIN = { port: 53, targetPort: 5353, protocol: 'UDP' as const };
const TWINS = [
  { ...TWIN, n: 71 },
  { ...TWIN, n: 72 },
] as const;
const MOVING = { n: 73, port: 53, targetPort: 5353, protocol: 'UDP' as const };
const WEB = { n: 74 } as const;
const SOLO = { n: 75 } as const;
const EMPTY = { n: 76, port: 53, protocol: 'UDP' } as const;

let node: Awaited<ReturnType<typeof startOneNode>>;

beforeAll(async () => {
  node = await startOneNode(['a', 'b', 'c', 'd']);
  node.manifests.put('all.yaml', [
    ...MANY.flatMap(({ name, pod, spec }) => service(name, spec, node.pods(pod))),
    ...TWINS.flatMap((spec, index) => service(`twin-${index}`, spec, node.pods('b'))),
  ]);
  node.manifests.put('empty.yaml', [svc('empty', EMPTY)]);
  node.manifests.put('solo.yaml', service('solo', SOLO, node.pods('a')));
  putWeb(['a', 'b']);
  putMoving({});
  await node.startAgent();
});
afterAll(() => node?.remove());

const putWeb = (pods: readonly string[]) =>
  node.manifests.put('web.yaml', service('web', WEB, node.pods(...pods)));

type Conditions = Readonly<Record<'ready' | 'serving' | 'terminating', boolean>>;

/** The Service `moving`; pods without conditions are ready, null: not in its slices at all. */
function putMoving(conditions: Readonly<Record<string, Conditions | null>>): void {
  const pods = node.pods('a', 'b').filter(({ name }) => conditions[name] !== null);
  const made = slices(
    'moving',
    pods.map((pod) => ({ pod })),
    MOVING,
  );
  const changed = made.map((slice): Manifest => {
    const endpoints = slice['endpoints'] as readonly { readonly targetRef: { name: string } }[];
    return {
      ...slice,
      endpoints: endpoints.map((endpoint) => {
        const own = conditions[endpoint.targetRef.name];
        return own ? { ...endpoint, conditions: own } : endpoint;
      }),
    };
  });
  node.manifests.put('moving.yaml', [svc('moving', MOVING), ...changed]);
}

const addressOf = ({ address, port }: SocketAddress): SocketAddress => ({ address, port });

/** The address of the backend itself. */
function direct(pod: string, port: number, kind: AddressKind): SocketAddress {
  const { ipv4, ipv6 } = node.pods(pod)[0]!;
  return { address: { IPv4: ipv4, IPv6: ipv6, 'v4-mapped': `::ffff:${ipv4}` }[kind], port };
}

/** Runs a fixture in the client pod and returns its output for these peers. */
async function talkIn(
  fixture: string,
  kind: AddressKind,
  peers: readonly SocketAddress[],
): Promise<unknown> {
  const family = kind === 'IPv4' ? 'udp4' : 'udp6';
  const words = peers.flatMap(({ address, port }) => [address, String(port)]);
  const argv = insideSandbox(node.sandboxes[0]!, [process.execPath, fixture, family, ...words]);
  const { stdout, stderr, code } = await run(argv[0]!, argv.slice(1));
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout);
}

/** Connections made and open, by Service, of the backends of one family. */
async function counts(kind: AddressKind): Promise<Record<string, { made: number; open: number }>> {
  const { instance } = node;
  const args = ['backends', '-o', 'json', '--run-dir', instance.runDir];
  const { stdout } = await runCommand(instance, args);
  const family = kind === 'IPv6' ? 'IPv6' : 'IPv4';
  const rows = (JSON.parse(stdout) as { items: BackendRow[] }).items;
  const totals: Record<string, { made: number; open: number }> = {};
  for (const { name, connections = 0, open = 0 } of rows.filter((row) => row.family === family)) {
    const service = name.replace(/:.*/, '');
    const before = totals[service] ?? { made: 0, open: 0 };
    totals[service] = { made: before.made + connections, open: before.open + open };
  }
  return totals;
}

/** The same, once no socket of an earlier test is open any more. */
async function idleCounts(kind: AddressKind): ReturnType<typeof counts> {
  return until(async () => {
    const now = await counts(kind);
    return Object.values(now).every(({ open }) => open === 0) && now;
  }, 'no open socket');
}

const sourceOf = (answer: Answer) => (answer.kind === 'answered' ? answer.source : answer);
const backendOf = (answer: Answer) => (answer.kind === 'answered' ? answer.backend : answer.code);

test.each(KINDS)('UDP %s: one socket talks to a dozen Services', async (kind) => {
  const before = await idleCounts(kind);
  const since = async () => {
    const now = await counts(kind);
    return MANY.map(({ name }) => {
      const { made, open } = before[name]!;
      return { name, made: now[name]!.made - made, open: now[name]!.open - open };
    });
  };
  const socket = await node.client().open(target(MANY[0]!.spec, kind));
  for (let round = 0; round < 3; round++) {
    for (const { name, pod, spec } of MANY) {
      const to = addressOf(target(spec, kind));
      const answer = await socket.talk(`to ${name}, round ${round}`, to);
      expect(answer).toMatchObject({ backend: pod, source: to });
    }
  }
  for (const { name, pod, targetPort, spec } of MANY) {
    const past = direct(pod, targetPort, kind);
    expect(sourceOf(await socket.talk('past it', past)), name).toEqual(
      addressOf(target(spec, kind)),
    );
  }
  const expected = MANY.map(({ name }, index) => ({ name, made: 1, open: +(index < COUNTED) }));
  expect(await since()).toEqual(expected);
  await socket.close();
  const closed = expected.map((row) => ({ ...row, open: 0 }));
  await untilHolds(async () => expect(await since()).toEqual(closed));
});

test.each(KINDS)(
  'UDP %s: two Services with one backend, replies come from the latest',
  async (kind) => {
    const [one, other] = TWINS.map((spec) => addressOf(target(spec, kind)));
    const past = direct('b', 5353, kind);
    // The pair as the first flows of a socket, as its last stored flow and the next, and as later ones.
    for (const others of [0, COUNTED - 1, COUNTED]) {
      const socket = await node.client().open(target(TWINS[0], kind));
      for (const { spec } of MANY.slice(0, others))
        await socket.talk('another Service', addressOf(target(spec, kind)));
      for (const to of [one, other, one, one, other]) {
        expect(sourceOf(await socket.talk('to the Service', to))).toEqual(to);
        expect(sourceOf(await socket.talk('past it', past))).toEqual(to);
      }
      await socket.close();
    }
  },
);

test.each(KINDS)(
  'UDP %s: after connect(AF_UNSPEC) replies of a pod have its own address',
  async (kind) => {
    const [first] = MANY;
    const before = await idleCounts(kind);
    const to = addressOf(target(first!.spec, kind));
    const past = direct(first!.pod, first!.targetPort, kind);
    expect(await talkIn(DISCONNECT, kind, [to, past])).toEqual([to, past]);
    expect((await counts(kind))[first!.name]).toEqual({
      made: before[first!.name]!.made + 1,
      open: before[first!.name]!.open,
    });
  },
);

test.each(KINDS)(
  'UDP %s: connected to a pod that it reached through a Service, the peer is the pod',
  async (kind) => {
    const [first] = MANY;
    const to = addressOf(target(first!.spec, kind));
    const past = direct(first!.pod, first!.targetPort, kind);
    expect(await talkIn(CONNECT_LATER, kind, [to, past])).toEqual([to, past]);
  },
);

test.each(KINDS)(
  'UDP %s, reconnected: to a Service, another Service, and an address that is no Service',
  async (kind) => {
    const plain = direct('a', 8080, kind);
    const peers = [
      addressOf(target(MANY[0]!.spec, kind)),
      addressOf(target(MANY[3]!.spec, kind)),
      plain,
      addressOf(target(MANY[1]!.spec, kind)),
    ];
    const before = await idleCounts(kind);
    const answers = await talkIn(RECONNECT, kind, peers);
    const names = ['a', 'b', 'a', 'a'];
    expect(answers).toEqual(
      peers.map((peer, index) => ({ backend: names[index], source: peer, peer })),
    );
    const after = await counts(kind);
    for (const name of ['s1', 's2', 's4']) {
      const { made, open } = before[name]!;
      expect(after[name], name).toEqual({ made: made + 1, open });
    }
  },
);

test('TCP: open connections are counted until they are closed', async () => {
  const before = (await idleCounts('IPv4'))['web']!;
  const sockets = [];
  for (let i = 0; i < 5; i++) sockets.push(await node.client().open(target(WEB)));
  expect(await counts('IPv4')).toHaveProperty('web', {
    made: before.made + 5,
    open: before.open + 5,
  });
  for (const socket of sockets) await socket.close();
  await untilHolds(async () =>
    expect((await counts('IPv4'))['web']).toEqual({ made: before.made + 5, open: before.open }),
  );
});

function streamProgram(): string {
  const program = join(node.instance.runDir, 'stream');
  if (!existsSync(program)) execFileSync('cc', ['-Wall', '-Werror', '-o', program, STREAM]);
  return program;
}

const HAS_MPTCP = existsSync('/proc/sys/net/mptcp/enabled');
const STREAMS = ['tcp', ...(HAS_MPTCP ? ['mptcp'] : [])];
const ANEW = STREAMS.flatMap((protocol) => KINDS.map((kind) => [protocol, kind] as const));

/** Runs the fixture in the client pod and returns the peers it prints. */
async function stream(mode: string, peers: readonly SocketAddress[]): Promise<string[]> {
  const words = peers.flatMap(({ address, port }) => [address, String(port)]);
  const argv = insideSandbox(node.sandboxes[0]!, [streamProgram(), mode, ...words]);
  const { stdout, stderr, code } = await run(argv[0]!, argv.slice(1));
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout.trimEnd().split('\n');
}

const shown = ({ address, port }: SocketAddress): string => `${address} ${port}`;

test.each(ANEW)(
  '%s %s: a socket that is connected to its backend afterwards shows it',
  async (protocol, kind) => {
    const before = (await idleCounts(kind))['solo']!;
    const peers = [addressOf(target(SOLO, kind)), direct('a', 8080, kind)];
    expect(await stream(`again-${protocol}`, peers)).toEqual(peers.map(shown));
    await untilHolds(async () =>
      expect((await counts(kind))['solo']).toEqual({ made: before.made + 1, open: before.open }),
    );
  },
);

test.each(KINDS)('UDP %s: a failed connect() does not change the peer', async (kind) => {
  const to = addressOf(target(MANY[0]!.spec, kind));
  const nobody = addressOf(target(EMPTY, kind));
  expect(await stream('refused', [to, nobody])).toEqual([shown(to), shown(to)]);
});

test('TCP: if the socket table is full, the flow is stored with the socket', async () => {
  const table = openPinnedMap(join(pinFolder(node.instance.bpfRoot).maps, 'fl_tcp_sock'));
  const { maxEntries, valueSize } = table.info;
  // Cookies that are not in use yet.
  const cookies = BigUint64Array.from(
    { length: maxEntries },
    (_, index) => 2n ** 60n + BigInt(index),
  );
  const keys = new Uint8Array(cookies.buffer);
  const to = target(WEB);
  const before = (await idleCounts('IPv4'))['web']!;
  try {
    table.putBatch(keys, new Uint8Array(maxEntries * valueSize));
    const socket = await node.client().open(to);
    expect(socket.answer).toMatchObject({ peer: addressOf(to) });
    const during = { made: before.made + 1, open: before.open + 1 };
    expect((await counts('IPv4'))['web']).toEqual(during);
    await socket.close();
    const after = { made: before.made + 1, open: before.open };
    await untilHolds(async () => expect((await counts('IPv4'))['web']).toEqual(after));
  } finally {
    table.deleteBatch(keys);
    table.close();
  }
});

test('TCP: the socket table holds exactly the open sockets', async () => {
  const table = openPinnedMap(join(pinFolder(node.instance.bpfRoot).maps, 'fl_tcp_sock'));
  // Those of earlier tests may still be closing.
  await untilHolds(() => expect(table.readAll().count).toBe(0));
  const socket = await node.client().open(target(WEB));
  expect(table.readAll().count).toBe(1);
  await node.client().burst(target(WEB), { connections: 200 });
  await node.client().once({ ...target(WEB), address: '203.0.113.9' }, 200);
  await socket.close();
  await untilHolds(() => expect(table.readAll().count).toBe(0));
  table.close();
});

test.skipIf(!HAS_MPTCP).each(KINDS)(
  'MPTCP %s: the peer is the Service, and connections are counted until they are closed',
  async (kind) => {
    const { address, port } = target(WEB, kind);
    const before = (await idleCounts(kind))['web']!;
    const lines: string[] = [];
    const argv = insideSandbox(node.sandboxes[0]!, [
      streamProgram(),
      'mptcp',
      address,
      String(port),
      '10',
    ]);
    const child = start(argv[0]!, argv.slice(1), { onStdoutLine: (line) => lines.push(line) });
    await untilHolds(() => expect(lines).toEqual(Array(10).fill(`${address} ${port}`)));
    const during = { made: before.made + 10, open: before.open + 10 };
    expect((await counts(kind))['web']).toEqual(during);
    child.kill('SIGTERM');
    await child.exited;
    const after = { made: before.made + 10, open: before.open };
    await untilHolds(async () => expect((await counts(kind))['web']).toEqual(after));
  },
);

test.each(KINDS)(
  'TCP %s: the peer stays the Service after its backend is removed',
  async (kind) => {
    const to: Target = target(WEB, kind);
    const socket = await node.client().open(to);
    const { answer } = socket;
    if (answer?.kind !== 'answered') throw new Error('no greeting');
    putWeb(['a', 'b'].filter((name) => name !== answer.backend));
    await untilHolds(async () => {
      const { hits } = await node.client().burst(to, { connections: 20 });
      expect(hits).not.toHaveProperty(answer.backend);
    });
    const late = await socket.talk('still here');
    expect(late).toMatchObject({ backend: answer.backend, peer: addressOf(to) });
    await socket.close();
    putWeb(['a', 'b']);
    await untilHolds(async () => {
      const { hits } = await node.client().burst(to, { connections: 20 });
      expect(Object.keys(hits)).toHaveLength(2);
    });
  },
);

test.each(KINDS)(
  'UDP %s: a terminating backend is kept, a removed one is replaced',
  async (kind) => {
    const to = target(MOVING, kind);
    const freshHits = async () => {
      const answers = await Promise.all(Array.from({ length: 20 }, () => node.client().once(to)));
      return [...new Set(answers.map(backendOf))].sort();
    };
    putMoving({});
    await untilHolds(async () => expect(await freshHits()).toEqual(['a', 'b']));
    const socket = await node.client().open(to);
    const mine = backendOf(await socket.talk('first'));
    const others = ['a', 'b'].filter((name) => name !== mine);
    putMoving({ [mine]: { ready: false, serving: true, terminating: true } });
    await untilHolds(async () => expect(await freshHits()).toEqual(others));
    await node.programmed();
    for (let i = 0; i < 5; i++) {
      const answer = await socket.talk(`while it terminates ${i}`);
      expect(answer).toMatchObject({ backend: mine, source: addressOf(to) });
    }
    putMoving({ [mine]: null });
    await untilHolds(async () => {
      const answer = await socket.talk('after it is gone');
      expect(answer).toMatchObject({ backend: others[0], source: addressOf(to) });
    });
    await socket.close();
  },
);
