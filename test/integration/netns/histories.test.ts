// SPDX-License-Identifier: Apache-2.0
// Random histories of Services and slices that come, change and go. After every step the kernel must hold
// what a tiny independent model says, and real connections must agree.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runCommand } from '../../../src/lab/agent.ts';
import { askAgent } from '../../../src/server/admin-socket.ts';
import { target } from '../../support/builders.ts';
import {
  change,
  expectedFrontends,
  expectedPods,
  type Model,
  pick,
  type Random,
  seededRandom,
} from '../../support/model.ts';
import { startOneNode } from '../../support/node.ts';
import { untilHolds } from '../../support/until.ts';

const HISTORIES = 100;
const STEPS = 6;
/** The commands read the same as the socket they ask; starting one takes longer than a whole history. */
const COMMAND_EVERY = 10;

let node: Awaited<ReturnType<typeof startOneNode>>;

beforeAll(async () => {
  node = await startOneNode(['a', 'b', 'c', 'd']);
  await node.startAgent();
});
afterAll(() => node?.remove());

interface FrontendRow {
  readonly frontend: string;
  readonly kernel: readonly string[];
  readonly kernelState: string;
}

interface BackendRow {
  readonly name: string;
  readonly backend: string;
  readonly isDesired: boolean;
  readonly kernelState: string;
}

function frontendsOf(rows: readonly FrontendRow[]): Record<string, string> {
  return Object.fromEntries(
    rows.map(({ frontend, kernel }) => [frontend, [...kernel].sort().join(' ')]),
  );
}

async function expectKernel(model: Model): Promise<void> {
  const rows = (await askAgent(node.instance.runDir, '/v1/services')) as FrontendRow[];
  expect(frontendsOf(rows)).toEqual(expectedFrontends(model));
  expect(rows.filter(({ kernelState }) => kernelState !== 'ok')).toEqual([]);
  const backends = (await askAgent(node.instance.runDir, '/v1/backends')) as BackendRow[];
  expect(backends.filter(({ kernelState }) => kernelState !== 'ok')).toEqual([]);
  const held = backends.filter(({ isDesired }) => isDesired).map(({ backend }) => backend);
  const wanted = Object.values(expectedFrontends(model)).flatMap((text) => text.split(' '));
  expect(held.sort()).toEqual(wanted.filter((text) => text !== '').sort());
}

async function expectConnections(model: Model, random: Random): Promise<void> {
  const name = `svc-${1 + Math.floor(random() * 6)}`;
  const spec = model.services.get(name);
  const dialled = spec ?? model.slices.get(name)?.spec ?? { n: Number(name.slice(4)) };
  const kind = pick(random, ['IPv4', 'IPv6', 'v4-mapped'] as const);
  const answer = await node.client().once(target(dialled, kind));
  const pods = expectedPods(model, name);
  if (pods.length > 0) {
    expect(pods).toContain(answer.kind === 'answered' ? answer.backend : answer.code);
  } else {
    const code = spec === undefined ? 'EHOSTUNREACH' : 'ECONNREFUSED';
    expect(answer).toMatchObject({ kind: 'failed', code });
  }
}

async function expectCommands(model: Model): Promise<void> {
  const paths = ['--run-dir', node.instance.runDir, '-o', 'json'];
  const services = await runCommand(node.instance, ['services', ...paths]);
  const list: { items: FrontendRow[] } = JSON.parse(services.stdout);
  expect(frontendsOf(list.items)).toEqual(expectedFrontends(model));
}

async function live(seed: number): Promise<void> {
  const random = seededRandom(seed);
  const model: Model = { services: new Map(), slices: new Map() };
  const files = new Set<string>();
  for (let step = 0; step < STEPS; step++) {
    // Several files at once now and then, as a roll-out does.
    const burst = random() < 0.3 ? 4 : 1;
    for (let i = 0; i < burst; i++) {
      const { file, content } = change(model, node.servers, random);
      if (content === undefined) node.manifests.remove(file);
      else node.manifests.put(file, content);
      files.add(file);
    }
    await untilHolds(() => expectKernel(model));
    await expectConnections(model, random);
    await expectConnections(model, random);
  }
  if (seed % COMMAND_EVERY === 0) await expectCommands(model);
  for (const file of files) node.manifests.remove(file);
  await untilHolds(() => expectKernel({ services: new Map(), slices: new Map() }));
}

test(`${HISTORIES} random histories: kernel and connections follow the model`, async () => {
  for (let seed = 0; seed < HISTORIES; seed++) {
    await live(seed).catch((error: unknown) => {
      throw new Error(`history of seed ${seed}`, { cause: error });
    });
  }
  expect((await node.status()).problems).toEqual([]);
}, 180_000);

test('after all of them every table is empty again', async () => {
  const { tables, services } = await node.status();
  expect(services).toBe(0);
  expect(tables.filter(({ name, used }) => used > 0 && name.startsWith('fl_frontend'))).toEqual([]);
});
