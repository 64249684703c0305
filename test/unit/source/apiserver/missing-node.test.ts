// SPDX-License-Identifier: Apache-2.0
// A Node that the API server lacks is reported while the initial sync waits for it, and afterwards.
import { expect, onTestFinished, test } from 'vitest';
import type { Problem } from '../../../../src/model/problem.ts';
import { ownNode, SERVICES, SLICES } from '../../../../src/source/apiserver/kinds.ts';
import { LIMITS } from '../../../../src/source/apiserver/limits.ts';
import { clusterSource } from '../../../../src/source/apiserver/source.ts';
import { until } from '../../../support/until.ts';
import { clusterSettings, openServer, SILENT_LOG } from './support/harness.ts';
import { node, service, slice } from './support/objects.ts';

const NODE = ownNode('n1');
const ADVICE = 'set --hostname-override to the name of the Node of this machine';

async function started() {
  const server = await openServer();
  server.put(SERVICES.path, service('kubernetes'));
  server.put(SLICES.path, slice('kubernetes'));
  const warnings: string[] = [];
  const events: string[] = [];
  const log = {
    ...SILENT_LOG,
    warn: (...words: readonly unknown[]) => void warnings.push(words.join(' ')),
  } as never;
  const settings = clusterSettings(server, { log });
  const source = clusterSource(settings);
  onTestFinished(() => source.close());
  source.start({
    onChanges: () => undefined,
    onSynced: () => void events.push('synced'),
    onProblems: () => undefined,
  });
  return { server, clock: settings.clock, warnings, events, source };
}

const waiting: Problem = {
  reason: `waiting for Node n1, at most 30 s: the API server has no Node of this name; register it, or ${ADVICE}`,
  isWarning: true,
};

test('it is waited for, logged once, and not found after 30 s', async () => {
  const { source, clock, warnings, events } = await started();
  await until(() => source.problems().length > 0, 'a warning');
  expect(source.problems()).toEqual([waiting]);
  expect(warnings).toEqual([waiting.reason]);
  await until(() => source.cluster?.()?.watches.every(({ isSynced }) => isSynced), 'all lists');
  clock.advance(LIMITS.nodeWaitMs);
  expect(events).toEqual(['synced']);
  expect(source.problems()).toMatchObject([
    { reason: expect.stringMatching(/^Node n1 not found: /), isWarning: true },
  ]);
  expect(warnings).toHaveLength(1);
});

test('a Node that is registered meanwhile ends the wait and the warning', async () => {
  const { server, source, events } = await started();
  await until(() => source.problems().length > 0, 'a warning');
  server.put(NODE.path, node('n1'));
  await until(() => events.includes('synced'), 'the initial sync');
  expect(source.problems()).toEqual([]);
});
