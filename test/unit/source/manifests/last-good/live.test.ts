// SPDX-License-Identifier: Apache-2.0
// A folder that is changed while no agent runs.
import { statSync } from 'node:fs';
import { rename, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Problem } from '../../../../../src/model/problem.ts';
import type { ObjectChange } from '../../../../../src/model/types.ts';
import { keeperOf } from '../../../../../src/source/manifests/last-good/keeper.ts';
import { openManifests } from '../../../../../src/source/manifests/manifests.ts';
import { SYSTEM_CLOCK } from '../../../../../src/sys/clock.ts';
import { createPlanner } from '../../../../support/plan/planner.ts';
import { until } from '../../../../support/until.ts';
import { SETTINGS } from '../../../plan/support.ts';
import { changeTexts, folder } from '../folder.ts';

const service = (name: string, port: string | number = 80): string =>
  `apiVersion: v1\nkind: Service\nmetadata: {name: ${name}}\nspec: {clusterIP: 10.96.0.1, ports: [{port: ${port}}]}\n`;

const MANY = Array.from({ length: 12 }, (_, index) => `s${index}`);
const manyFiles = Object.fromEntries(MANY.map((name) => [`${name}.yaml`, service(name)]));

/** What an agent is told of the folder until it is synced, and what it plans then. */
async function agentOn(path: string, kept: string, removalDelayMs = 0) {
  const log = { info: () => undefined, warn: () => undefined };
  const keep = keeperOf({ path: kept, folder: path, clock: SYSTEM_CLOCK, log } as never);
  const calls: (readonly ObjectChange[])[] = [];
  let problems: readonly Problem[] = [];
  let isSynced = false;
  const planner = createPlanner(SETTINGS, {
    onJudged: (changes, refused) => source.judged(changes, refused),
  });
  const listener = {
    onChanges: (changes: readonly ObjectChange[]) => {
      calls.push(changes);
      planner.apply(changes);
    },
    onSynced: () => {
      isSynced = true;
      planner.apply([]);
    },
    onProblems: (now: readonly Problem[]) => {
      problems = now;
    },
  };
  const source = openManifests(path, listener, { removalDelayMs, keep });
  onTestFinished(() => source.close());
  await until(() => isSynced, 'synced');
  const { services, rejections } = planner.current();
  return {
    source,
    calls,
    problems: problems.map(({ reason }) => reason),
    names: [...services.keys()],
    portsOf: (name: string) =>
      services.get(`default/${name}`)?.ports.flatMap(({ frontends }) => frontends)[0]?.port,
    rejections: rejections.map(({ reason }) => reason),
  };
}

/** An agent has run on it, and has ended. */
async function left(files: Readonly<Record<string, string>>) {
  const { path, write } = await folder(files);
  const { path: runDir } = await folder();
  const kept = join(runDir, 'kept');
  (await agentOn(path, kept)).source.close();
  return { path, kept, write };
}

test('what counted is told first, then what has changed', async () => {
  const { path, kept, write } = await left({ 'a.yaml': service('a'), 'b.yaml': service('b') });
  await write('b.yaml', service('b', 81));
  await write('c.yaml', service('c'));
  const { calls } = await agentOn(path, kept);
  expect(calls.map(changeTexts)).toEqual([
    ['put Service default/a', 'put Service default/b'],
    ['put Service default/b', 'put Service default/c'],
  ]);
});

test.each([
  ['a bad value', service('web', '8O'), /not "8O"; the last good version/],
  ['an unknown field', service('web', '81, prot: UDP'), /unknown field; the last good version/],
])('%s: the last good version counts', async (_slip, text, reason) => {
  const { path, kept, write } = await left({ 'web.yaml': service('web') });
  await write('web.yaml', text);
  const first = await agentOn(path, kept);
  expect([first.portsOf('web'), first.rejections]).toEqual([80, [expect.stringMatching(reason)]]);
  first.source.close();
  // Also across another restart, with the bad version in the folder all the time.
  const second = await agentOn(path, kept);
  expect([second.portsOf('web'), second.rejections]).toEqual([80, first.rejections]);
});

test.each([
  ['an unreadable text', 'kind: ['],
  ['an object that cannot be named', service('""')],
  ['an empty file', ''],
])('%s: what the file had before counts', async (_slip, text) => {
  const { path, kept, write } = await left({ 'web.yaml': service('web') });
  await write('web.yaml', text);
  const { names, problems } = await agentOn(path, kept);
  expect(names).toEqual(['default/web']);
  expect(problems.length).toBeGreaterThan(0);
});

test('a file that was renamed is known by its new name', async () => {
  const { path, kept } = await left({ 'a.yaml': service('web') });
  const before = statSync(kept).ino;
  const { source, calls } = await agentOn(path, kept);
  await until(() => statSync(kept).ino !== before, 'the write of the start');
  await rename(join(path, 'a.yaml'), join(path, 'b.yaml'));
  await until(
    () =>
      source
        .locate({ kind: 'Service', namespace: 'default', name: 'web' }, '')
        ?.file.endsWith('b.yaml'),
    'the new name',
  );
  source.close();
  expect(calls.map(changeTexts)).toEqual([['put Service default/web']]);
  await writeFile(join(path, 'b.yaml'), 'kind: [');
  expect((await agentOn(path, kept)).names).toEqual(['default/web']);
});

test('most files gone: their Services wait, with a delay', async () => {
  const { path, kept } = await left(manyFiles);
  for (const name of MANY) await unlink(join(path, `${name}.yaml`));
  const waiting = await agentOn(path, kept, 60_000);
  expect(waiting.names).toHaveLength(12);
  expect(waiting.problems.join()).toMatch(/^12 of 12 Services are gone/);
  waiting.source.close();
  // They are not forgotten by a restart within the delay.
  const again = await agentOn(path, kept, 60_000);
  expect(again.names).toHaveLength(12);
  again.source.close();
  expect((await agentOn(path, kept)).names).toEqual([]);
});

test.each(['before it has read the folder', 'before it has planned what it read'])(
  'an agent that ends %s loses nothing',
  async (when) => {
    const { path, kept, write } = await left({ 'web.yaml': service('web') });
    await write('web.yaml', service('web', '8O'));
    const log = { info: () => undefined, warn: () => undefined };
    const keep = keeperOf({ path: kept, folder: path, clock: SYSTEM_CLOCK, log } as never);
    let isSynced = false;
    const listener = {
      onChanges: () => undefined,
      onSynced: () => {
        isSynced = true;
      },
      onProblems: () => undefined,
    };
    const source = openManifests(path, listener, { keep });
    if (when !== 'before it has read the folder') await until(() => isSynced, 'synced');
    // As the first plan, which is made when it is known who listens on this node.
    source.judged([], new Set());
    source.close();
    expect((await agentOn(path, kept)).portsOf('web')).toBe(80);
  },
);

test('what is gone for good is not told again', async () => {
  const { path, kept } = await left({ 'a.yaml': service('a'), 'b.yaml': service('b') });
  await unlink(join(path, 'a.yaml'));
  const { source, calls } = await agentOn(path, kept);
  expect(calls.map(changeTexts)[1]).toEqual(['remove Service default/a']);
  source.close();
  const next = await agentOn(path, kept);
  expect(next.calls.map(changeTexts)).toEqual([['put Service default/b']]);
});

test('without a place to keep them, the first versions count', async () => {
  const { path, write } = await left({ 'web.yaml': service('web') });
  await write('web.yaml', service('web', '8O'));
  const { portsOf } = await agentOn(path, join(path, 'never', 'written'));
  expect(portsOf('web')).toBeUndefined();
});
