// SPDX-License-Identifier: Apache-2.0
// Cookies of direct return between three nodes, with real sockets: the address of a node is not enough, and secrets come, are
// rotated and go without a lost request, although no two nodes read their files at the same time.
import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readSecrets } from '../../../../src/engines/bpf/direct-return/kernel/cookie-secrets.ts';
import { run } from '../../../../src/sys/exec.ts';
import { insideNamespace } from '../../../../src/sys/netns.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import type { TestNode } from '../../../support/node.ts';
import { cookieOf } from '../../../support/packets/cookie.ts';
import { underLoad, withOpen } from '../../../support/packets/direct-load.ts';
import {
  BALANCER,
  type DirectCluster,
  OUTSIDE,
  startDirectCluster,
  VIPS,
} from '../../../support/packets/direct-return.ts';
import { wrap } from '../../../support/packets/geneve.ts';
import { compiled } from '../../../support/programs/compiled.ts';
import { until, untilHolds } from '../../../support/until.ts';

const SEND_FROM = fileURLToPath(new URL('../../../support/programs/send-from.c', import.meta.url));
const NODE_2 = '192.168.77.2';
const SECRETS = { A: 'a1'.repeat(20), B: 'b2'.repeat(20) } as const;
type Line = keyof typeof SECRETS | 'none';

const folder = mkdtempSync(join(tmpdir(), 'fairlead-cookies-'));
const fileOf = ({ self }: TestNode): string => join(folder, self.name);

const keyOf = (name: keyof typeof SECRETS): Uint8Array => {
  const read = readSecrets(SECRETS[name]);
  return (read.ok && read.value?.keys[0]) || new Uint8Array();
};

let cluster: DirectCluster;

/** As a volume does it: the file is replaced. */
function write(node: TestNode, lines: readonly Line[]): void {
  const text = lines.map((line) => (line === 'none' ? line : SECRETS[line])).join('\n');
  writeFileSync(`${fileOf(node)}.new`, text);
  renameSync(`${fileOf(node)}.new`, fileOf(node));
}

const cookiesOf = async (node: TestNode) => (await node.status()).directReturn?.cookies;

/** Until the node uses them: `status` says so. */
async function use(node: TestNode, lines: readonly Line[]): Promise<void> {
  write(node, lines);
  await untilHolds(async () => {
    const { sent, taken } = (await cookiesOf(node)) ?? { sent: '', taken: [] };
    expect([sent === 'none', taken.length]).toEqual([lines[0] === 'none', lines.length]);
    expect(taken.includes('none')).toBe(lines.includes('none'));
    if (lines.length === 2) expect(sent).toBe(lines[0] === 'none' ? 'none' : taken[0]);
  });
}

beforeAll(async () => {
  cluster = await startDirectCluster({
    flags: (node) => {
      if (!existsSync(fileOf(node))) write(node, ['none']);
      return ['--direct-return-secret-file', fileOf(node)];
    },
  });
  await cluster.serve();
});
afterAll(async () => {
  await cluster?.stop();
  rmSync(folder, { recursive: true });
});

/** Each step is on all nodes before the next one; the last one takes the secret away again. */
const STEPS: readonly (readonly Line[])[] = [
  ...[['none', 'A'] as const, ['A', 'none'] as const, ['A'] as const],
  ...[['A', 'B'] as const, ['B', 'A'] as const, ['B'] as const],
  ...[['B', 'none'] as const, ['none', 'B'] as const, ['none'] as const],
];

test('secrets come, are rotated and go, node by node, and no request and no connection is lost', async () => {
  const before = await Promise.all(cluster.nodes.map((node) => node.status()));
  await underLoad(cluster, (progress) =>
    withOpen(cluster, async (allAnswer) => {
      for (const [at, lines] of STEPS.entries()) {
        const nodes = at % 2 === 0 ? cluster.nodes : cluster.nodes.toReversed();
        for (const node of nodes) {
          await use(node, lines);
          await progress();
          await allAnswer();
        }
      }
    }),
  );
  for (const [at, node] of cluster.nodes.entries()) {
    const { reasons } = await node.status();
    for (const reason of ['GENEVE_NO_COOKIE', 'GENEVE_MALFORMED'])
      expect(reasons[reason]).toBe(before[at]!.reasons[reason]);
  }
});

/** To n2, as if n1 had sent it: a client's SYN for its server. */
async function forge(port: number, cookie?: Uint8Array): Promise<void> {
  const { machine, servers } = cluster;
  const inner = `${OUTSIDE[0]}:${port} > ${VIPS[0]}:80 tcp SYN`;
  const backend = { address: servers[1]!.ipv4, port: 8080 };
  const frame = wrap({ from: BALANCER[0], to: NODE_2, backend, inner, cookie });
  const bytes = Buffer.from(frame.subarray(14 + 20 + 8)).toString('hex');
  const argv = [compiled(SEND_FROM), BALANCER[0], NODE_2, '6081', bytes];
  const [nsenter = '', ...args] = insideNamespace(machine.self.namespace, argv);
  expect(await run(nsenter, args)).toMatchObject({ code: 0, stderr: '' });
}

/** Whether the node has a connection of the client from this port. */
async function isKnown({ instance }: TestNode, port: number): Promise<boolean> {
  const client = `${OUTSIDE[0]}:${port}`;
  const args = ['connections', '-o', 'json', '--client', client, '--run-dir', instance.runDir];
  return (await runCommand(instance, args)).stdout.includes(client);
}

test('the address of a node is enough without a secret, and not with one', async () => {
  const [, backend] = cluster.nodes;
  const dropped = async () => (await backend!.status()).reasons['GENEVE_NO_COOKIE'] ?? 0;
  const before = await dropped();
  await forge(40_001);
  await until(() => isKnown(backend!, 40_001), 'the connection');
  await use(backend!, ['A']);
  await forge(40_002);
  await untilHolds(async () => expect(await dropped()).toBe(before + 1));
  // One that was seen is of its own connection, and of the secrets that are there.
  const cookie = (key: Uint8Array, port: number): Uint8Array =>
    cookieOf({
      ...{ key, node: BALANCER[0], source: OUTSIDE[0], destination: VIPS[0], protocol: 6 },
      ports: [port, 80],
    });
  await forge(40_002, cookie(keyOf('A'), 40_001));
  await forge(40_002, cookie(keyOf('B'), 40_002));
  await untilHolds(async () => expect(await dropped()).toBe(before + 3));
  await forge(40_003, cookie(keyOf('A'), 40_003));
  await until(() => isKnown(backend!, 40_003), 'the connection');
  expect(await isKnown(backend!, 40_002)).toBe(false);
  await use(backend!, ['none']);
});

test('a file that cannot be used leaves the secret as it is; status says both, and no log has a secret', async () => {
  const [balancer] = cluster.nodes;
  await use(balancer!, ['A', 'none']);
  writeFileSync(fileOf(balancer!), 'short');
  await untilHolds(async () => {
    const { stdout } = await runCommand(balancer!.instance, [
      ...['status', '--run-dir', balancer!.instance.runDir],
    ]);
    expect(stdout).toMatch(
      /^Cookies: +[0-9a-f]{8} sent, [0-9a-f]{8} and none taken; .* is not used: line 1 /m,
    );
    expect(stdout).not.toContain(SECRETS.A);
  });
  await use(balancer!, ['none']);
});

test('an agent that has had no secret, and finds a file that cannot be used, has no direct return', async () => {
  const node = cluster.nodes[2]!;
  await use(node, ['none']);
  writeFileSync(fileOf(node), 'short');
  await cluster.restart(2);
  const { limitations } = await node.status();
  expect(limitations.map(({ reason }) => reason).join('; ')).toMatch(
    /direct return.*is not used: line 1 .*start the agent again/,
  );
  write(node, ['none']);
  await cluster.restart(2);
  expect((await node.status()).limitations).toEqual([]);
});
