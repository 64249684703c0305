// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { ipvsRemoval } from '../../../../src/engines/kube-proxy/ipvs.ts';
import { removeInTurn, runStep } from '../../../../src/instance/leftovers/step.ts';

const IN_USE =
  'ipset v7.17: Set cannot be destroyed: it is in use by a kernel component\n' as const;
const sets = [{ name: 'KUBE-LOOP-BACK', entries: [] }];
const [destroy] = ipvsRemoval({ sets, servers: [], addresses: undefined });

const failing = (stderr: string, times: number) => {
  const calls: string[] = [];
  const runProgram = async (program: string, args: readonly string[]) => {
    calls.push([program, ...args].join(' '));
    return { code: calls.length <= times ? 1 : 0, stdout: '', stderr };
  };
  return { calls, runProgram };
};

test('a set that removed rules of nf_tables still refer to is destroyed once the kernel has released it', async () => {
  const { calls, runProgram } = failing(IN_USE, 2);
  expect(await runStep(destroy!, runProgram)).toBeUndefined();
  expect(calls).toEqual(Array(3).fill('ipset destroy KUBE-LOOP-BACK'));
});

test('any other failure is reported at once', async () => {
  const { calls, runProgram } = failing(
    'ipset v7.17: Kernel error received: Operation not permitted\n',
    9,
  );
  expect(await runStep(destroy!, runProgram)).toMatch(/not permitted$/);
  expect(calls).toHaveLength(1);
});

test('a program that is missing is to be installed', async () => {
  const runProgram = async () => ({ code: 127, stdout: '', stderr: '' });
  expect(await runStep(destroy!, runProgram)).toBe('install ipset');
});

test('sets and device of IPVS stay while a virtual server does: they tell whose it is', async () => {
  const steps = ipvsRemoval({
    sets: [{ name: 'KUBE-NODE-PORT-TCP', entries: ['30080'] }],
    servers: [
      { protocol: 'TCP', address: '10.96.0.10', port: 80, scheduler: 'rr', realServers: [] },
      { protocol: 'TCP', address: '192.0.2.11', port: 30_080, scheduler: 'rr', realServers: [] },
    ],
    addresses: ['10.96.0.10'],
  });
  const tried: string[] = [];
  const removalsWith = (missing: string) =>
    steps.map((step) => ({
      ...{ name: step.program, step },
      run: async () => {
        tried.push(step.program);
        return step.program === missing ? `install ${missing}` : undefined;
      },
    }));
  expect(await removeInTurn(removalsWith('ipvsadm'))).toEqual(
    Array(2).fill('ipvsadm: install ipvsadm'),
  );
  expect(tried.splice(0)).toEqual(['ipvsadm', 'ipvsadm']);
  expect(await removeInTurn(removalsWith('ipset'))).toEqual(['ipset: install ipset']);
  expect(tried).toEqual(['ipvsadm', 'ipvsadm', 'ipset', 'ip']);
});
