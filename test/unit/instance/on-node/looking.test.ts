// SPDX-License-Identifier: Apache-2.0
// When the node is looked at, and what is told once.
import { expect, test } from 'vitest';
import { createOnNode } from '../../../../src/instance/on-node/looking.ts';
import type { NodeFacts } from '../../../../src/on-node/facts.ts';

function watch() {
  const pending: { readonly delayMs: number; readonly action: () => void }[] = [];
  const warned: string[] = [];
  const told: string[] = [];
  const state = { nowMs: 0, looks: 0, isStrict: false, strict: ['eth0'] };
  const read = (): NodeFacts => {
    state.looks++;
    const reversePath = state.isStrict
      ? state.strict.map((device) => ({ device, mode: 'strict' as const }))
      : [];
    return {
      rules: { value: [{ family: 'IPv4', priority: 1, text: 'from all lookup 2' }] },
      ...{ markTargets: { value: [] }, programs: { value: [] }, addresses: { value: [] } },
      cgroupPrograms: { value: [] },
      ...{ cni: { unread: 'EACCES' }, reversePath: { value: reversePath } },
    };
  };
  const onNode = createOnNode({
    read,
    own: () => ({
      ...{ packets: 'bpf', markBit: undefined, sockets: 'none' },
      ...{ clusterIps: new Map(), listenedTo: new Map() },
      uplinks: ['eth0', 'eth1'],
    }),
    clock: {
      monotonicMs: () => state.nowMs,
      after: (delayMs, action) => {
        const one = { delayMs, action };
        pending.push(one);
        return () => pending.splice(0, pending.length, ...pending.filter((it) => it !== one));
      },
    },
    log: {
      warn: (fields: object) => void warned.push(String((fields as { topic: string }).topic)),
    },
  });
  onNode.onBroken((fresh) => told.push(...fresh.map(({ topic }) => topic)));
  const delays = () => pending.map(({ delayMs }) => delayMs);
  return { onNode, state, warned, told, delays, next: () => pending.shift()?.action() };
}

test('looks at once, then every 30 seconds, and a second after a change, however often it changes', () => {
  const { onNode, delays, next, state } = watch();
  expect(delays()).toEqual([0]);
  next();
  expect([delays(), state.looks]).toEqual([[30_000], 1]);
  for (let change = 0; change < 5; change++) onNode.changed();
  expect(delays()).toEqual([1_000]);
  next();
  expect([delays(), state.looks]).toEqual([[30_000], 2]);
  onNode.close();
  expect(delays()).toEqual([]);
});

test('who asks gets what is there now; who scrapes, the last reading', () => {
  const { onNode, state } = watch();
  onNode.findings(true);
  state.nowMs = 400;
  onNode.findings(true);
  onNode.findings();
  expect(state.looks).toBe(1);
  state.nowMs = 1_000;
  onNode.findings();
  expect(state.looks).toBe(1);
  expect(onNode.findings(true).map(({ topic }) => topic)).toContain('policy-routing');
  expect(state.looks).toBe(2);
});

test('what breaks Services is told when it comes, and again when it comes back', () => {
  const { told, warned, next, state } = watch();
  next();
  expect(told).toEqual([]);
  state.isStrict = true;
  next();
  next();
  expect([told, warned]).toEqual([['rp-filter'], ['rp-filter']]);
  state.isStrict = false;
  next();
  state.isStrict = true;
  next();
  expect(told).toEqual(['rp-filter', 'rp-filter']);
});

test('a further device of a finding is no second warning', () => {
  const { told, warned, next, state } = watch();
  state.isStrict = true;
  next();
  state.strict = ['eth0', 'eth1'];
  next();
  expect([told, warned]).toEqual([['rp-filter'], ['rp-filter']]);
});
