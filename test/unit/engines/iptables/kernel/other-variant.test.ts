// SPDX-License-Identifier: Apache-2.0
// Rules of an earlier agent in the other iptables: they go when asked for, and what keeps them there is told until then.
import { expect, test } from 'vitest';
import { createOtherVariant } from '../../../../../src/engines/iptables/kernel/other-variant.ts';
import type { RunResult } from '../../../../../src/sys/exec.ts';

const OURS = `*filter
:OUTPUT ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-CLUSTER-IPS - [0:0]
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -p tcp -j KUBE-CLUSTER-IPS
COMMIT
`;
const KUBE_PROXYS = OURS.replace(
  '-A KUBE-SERVICES -p tcp -j KUBE-CLUSTER-IPS\nCOMMIT\n',
  'COMMIT\n*nat\n:KUBE-POSTROUTING - [0:0]\n-A KUBE-POSTROUTING -j MASQUERADE\nCOMMIT\n',
);
const OK: RunResult = { code: 0, stdout: '', stderr: '' };
const MISSING: RunResult = { code: 127, stdout: '', stderr: '' };

interface Node {
  readonly saved?: string;
  readonly answer?: RunResult;
  readonly has?: boolean;
  readonly variant?: 'nft' | 'legacy';
}

function node({ saved = OURS, answer = OK, has = true, variant = 'nft' }: Node) {
  const state = { answer, nowMs: 0, ran: [] as string[], inputs: [] as string[] };
  const other = createOtherVariant({
    variant,
    clock: { monotonicMs: () => state.nowMs },
    log: { info: () => undefined },
    mayHave: (family) => has && family === 'IPv4',
    runProgram: async (program, _, options) => {
      state.ran.push(program);
      if (program.endsWith('-save')) return { ...state.answer, stdout: saved };
      state.inputs.push(options?.stdin ?? '');
      return state.answer;
    },
  });
  return { state, other };
}

test('go, with the other iptables', async () => {
  const { state, other } = node({});
  expect(await other.remove(true)).toEqual([]);
  expect(state.ran).toEqual(['iptables-legacy-save', 'iptables-legacy-restore']);
  expect(state.inputs[0]).toContain('-X KUBE-SERVICES\n');
});

test.each<[title: string, node: Node, ran: number]>([
  ['no program is run where the kernel has none', { has: false }, 0],
  ['those of a kube-proxy stay', { saved: KUBE_PROXYS }, 1],
  ['those of others stay', { saved: '*filter\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n' }, 1],
  ['without iptables-legacy nobody knows whose its rules are', { answer: MISSING }, 1],
])('%s', async (_, facts, ran) => {
  const { state, other } = node(facts);
  expect(await other.remove(true)).toEqual([]);
  expect(state.ran.length).toBe(ran);
});

test('what failed is told until a later try succeeds', async () => {
  const { state, other } = node({ variant: 'legacy', answer: MISSING });
  const failed = await other.remove(true);
  expect(failed).toMatchObject([
    {
      text: 'rules of an earlier agent in iptables-nft',
      reason: expect.stringMatching(
        /^they may still serve, and cannot be removed: iptables-nft-save was not found: install/,
      ),
    },
  ]);
  state.answer = OK;
  expect(await other.remove(false)).toEqual(failed);
  expect(state.ran.length).toBe(1);
  state.nowMs = 30_000;
  expect(await other.remove(false)).toEqual([]);
  expect(await other.remove(false)).toEqual([]);
  expect(state.ran).toEqual(['iptables-nft-save', 'iptables-nft-save', 'iptables-nft-restore']);
});
