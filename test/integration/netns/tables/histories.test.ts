// SPDX-License-Identifier: Apache-2.0
// Random histories of Services and slices that are created, changed and deleted. After every step the kernel must
// hold what a small independent model says, and real connections must agree.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runCommand } from '../../../../tools/lab/agent.ts';
import { target } from '../../../support/builders.ts';
import {
  expectKernel,
  type FrontendRow,
  frontendsOf,
} from '../../../support/dataplane/kernel-oracle.ts';
import {
  change,
  changes,
  emptyModel,
  expectedFrontends,
  expectedPods,
  type Model,
  serviceNumber,
} from '../../../support/model.ts';
import { startOneNode } from '../../../support/node.ts';
import { ANY_NUMBER_MS, atNight, chance, repeatable, some } from '../../../support/random.ts';
import { untilHolds } from '../../../support/until.ts';

const POD_NAMES = ['a', 'b', 'c', 'd'];
const HISTORIES = atNight(30, 300);
const STEPS = 6;
/** Reads the socket that the commands read; starting a command takes longer than a whole history. */
const COMMAND_EVERY = 10;

let node: Awaited<ReturnType<typeof startOneNode>>;

beforeAll(async () => {
  node = await startOneNode(POD_NAMES);
  await node.startAgent();
});
afterAll(() => node?.remove());

/** Which addresses one client connects to. */
const probe = fc.record({ n: serviceNumber, kind: some('IPv4', 'IPv6', 'v4-mapped') });
type Probe = typeof probe extends fc.Arbitrary<infer T> ? T : never;

/** Sometimes several files at once, as in a rollout. */
const batch = chance(30).chain((isBurst) => {
  const length = isBurst ? 4 : 1;
  return fc.array(changes(POD_NAMES.length), { minLength: length, maxLength: length });
});
const step = fc.record({ batch, probes: fc.tuple(probe, probe) });
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
const history = fc.array(step, { minLength: STEPS, maxLength: STEPS });

async function expectConnection(model: Model, { n, kind }: Probe): Promise<void> {
  const name = `svc-${n}`;
  const spec = model.services.get(name);
  const dialled = spec ?? model.slices.get(name)?.spec ?? { n };
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

async function live(steps: readonly Step[], hasCommands: boolean): Promise<void> {
  const { runDir } = node.instance;
  const model = emptyModel();
  const files = new Set<string>();
  for (const { batch, probes } of steps) {
    for (const one of batch) {
      const { file, content } = change(model, node.servers, one);
      if (content === undefined) node.manifests.remove(file);
      else node.manifests.put(file, content);
      files.add(file);
    }
    await untilHolds(() => expectKernel(runDir, model));
    for (const one of probes) await expectConnection(model, one);
  }
  if (hasCommands) await expectCommands(model);
  for (const file of files) node.manifests.remove(file);
  await untilHolds(() => expectKernel(runDir, emptyModel()));
}

test(
  `${HISTORIES} random histories: kernel and connections follow the model`,
  async () => {
    let count = 0;
    const lives = fc.asyncProperty(history, async (steps) => {
      await live(steps, count % COMMAND_EVERY === 0);
      count += 1;
    });
    await fc.assert(lives, repeatable(HISTORIES));
    expect((await node.status()).problems).toEqual([]);
  },
  ANY_NUMBER_MS,
);

test('every table is empty afterwards', async () => {
  await untilHolds(async () => {
    const { tables, services } = await node.status();
    const left = tables.filter(({ name, used }) => used > 0 && name.startsWith('fl_frontend'));
    expect({ services, left }).toEqual({ services: 0, left: [] });
  });
});
