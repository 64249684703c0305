// SPDX-License-Identifier: Apache-2.0
// What the nftables dataplane asks of nft, and what becomes of a transaction that is refused.
import { expect, test } from 'vitest';
import { removeTables } from '../../../../../src/engines/nftables/kernel/cleanup.ts';
import { failureOf, serviceOfLine } from '../../../../../src/engines/nftables/state/failure.ts';
import type { RunOptions } from '../../../../../src/sys/exec.ts';
import { memoryNftables } from '../../../../support/nftables/memory/dataplane.ts';
import { backend, clusterIp, localNodePort, planOf, servicePort } from '../../bpf/plans.ts';

const web = (...backends: readonly string[]) =>
  servicePort(
    'web',
    [clusterIp('10.96.0.10')],
    backends.map((address) => backend(address)),
  );
const NODE_PORT = localNodePort(30_080);
const dns = (address: string) =>
  servicePort('dns', [clusterIp('10.96.0.53', 53)], [backend(address, 53)]);

/** Of IPv4. */
function written() {
  const { dataplane, IPv4 } = memoryNftables();
  return { dataplane, nft: IPv4 };
}

const lineOf = (script: string | undefined): readonly string[] =>
  (script ?? '').split('\n').map((line) => line.replaceAll(/[A-Z2-7]{8}-default/g, 'default'));

test('of a backend that is replaced only its element is written, without reading', async () => {
  const { dataplane, nft } = written();
  await dataplane.sync(planOf(web('10.1.1.5', '10.1.1.6'), dns('10.1.1.53')), 'all', []);
  nft.scripts();
  const before = nft.lists();
  const next = planOf(web('10.1.1.5', '10.1.1.7'), dns('10.1.1.53'));
  const { applied } = await dataplane.sync(next, ['default/web'], []);
  const [script] = nft.scripts();
  expect(lineOf(script)).toEqual([
    'delete element ip fairlead endpoints-tcp-0 { 1 : 10.1.1.6 . 8080 }',
    'add element ip fairlead endpoints-tcp-0 { 1 : 10.1.1.7 . 8080 }',
    '',
  ]);
  expect([applied, nft.lists()]).toEqual([2, before]);
  await dataplane.sync(next, ['default/web'], []);
  expect(nft.scripts()).toEqual([]);
});

test('a Service of which a rule is refused keeps what it had, and all others are written', async () => {
  const { dataplane, nft } = written();
  await dataplane.sync(planOf(web('10.1.1.5'), dns('10.1.1.53')), 'all', []);
  nft.scripts();
  nft.refuse(/10\.1\.1\.7/, 'Operation not supported');
  const next = planOf(web('10.1.1.7'), dns('10.1.1.54'));
  const { failed } = await dataplane.sync(next, ['default/web', 'default/dns'], []);
  expect(failed).toMatchObject([
    { service: 'default/web', reason: expect.stringContaining('the kernel may lack a module') },
  ]);
  const [script = ''] = nft.scripts();
  expect(script).toContain('10.1.1.54');
  expect(nft.text()).toContain('10.1.1.5:8080');
  expect(script).not.toContain('10.1.1.7');
  nft.refuse();
  expect((await dataplane.sync(next, ['default/web'], [])).failed).toEqual([]);
  expect(nft.scripts().join()).toContain('10.1.1.7:8080');
});

test('a table that somebody has removed is written whole, and no Service is blamed', async () => {
  const { dataplane, nft } = written();
  await dataplane.sync(planOf(web('10.1.1.5', '10.1.1.6'), dns('10.1.1.53')), 'all', []);
  nft.scripts();
  nft.flush();
  const next = planOf(web('10.1.1.7', '10.1.1.8'), dns('10.1.1.53'));
  const { failed } = await dataplane.sync(next, ['default/web'], []);
  const [script = ''] = nft.scripts();
  expect(failed).toEqual([]);
  expect([script.includes('10.1.1.8'), script.includes('10.1.1.53')]).toEqual([true, true]);
});

test('tables that cannot be listed are removed all the same, and it is an error if they cannot be', () => {
  const asked: string[] = [];
  const nft = (code: number) => (_: string, args: readonly string[], options?: RunOptions) => {
    asked.push(options?.stdin === undefined ? args.join(' ') : String(options.stdin));
    return { code: args[0] === '-f' ? code : 127, stdout: '', stderr: 'nft: not found' };
  };
  const written = { table: 'ip fairlead of nftables', chains: 0 };
  expect(removeTables(nft(0), ['IPv4'])).toEqual([written]);
  expect(asked.at(-1)).toBe('delete table ip fairlead\n');
  expect(() => removeTables(nft(127), ['IPv4'])).toThrow('nft is not installed');
});

test('of two Services with one ClusterIP one goes: unknown ports of the other are refused as before', async () => {
  const { dataplane, nft } = written();
  const at = (name: string, port: number) => ({
    ...servicePort(name, [clusterIp('10.96.0.10', port)], [backend('10.1.1.5')]),
    refusesOtherPortsOf: '10.96.0.10',
  });
  const both = planOf(at('web', 80), at('api', 81));
  await dataplane.sync(both, 'all', []);
  const web80 = [...both.services].filter(([key]) => key === 'default/web');
  await dataplane.sync({ ...both, services: new Map(web80) }, ['default/api'], []);
  expect(nft.text()).toContain('elements = { 10.96.0.10 comment "default/web" }');
  await dataplane.sync(planOf(), ['default/web'], []);
  expect(nft.text()).not.toContain('10.96.0.10');
});

test('a Service that was refused leaves the frontend that another one has now: it stays there', async () => {
  const { dataplane, nft } = written();
  const before = servicePort('web', [clusterIp('10.96.0.10'), NODE_PORT], [backend('10.1.1.5')]);
  await dataplane.sync(planOf(before), 'all', []);
  nft.refuse(/10\.1\.1\.7/, 'Operation not supported');
  const next = planOf(
    servicePort('web', [clusterIp('10.96.0.10')], [backend('10.1.1.7')]),
    servicePort('api', [clusterIp('10.96.0.11'), NODE_PORT], [backend('10.1.1.8')]),
  );
  await dataplane.sync(next, ['default/web', 'default/api'], []);
  nft.refuse();
  await dataplane.sync(next, ['default/web'], []);
  expect(nft.text()).toMatch(/tcp \. 30080 .*: goto \S*api/);
});

test('a transaction of which nobody knows whose it is fails as a whole, and all is read again', async () => {
  const { dataplane, nft } = written();
  await dataplane.sync(planOf(web('10.1.1.5')), 'all', []);
  nft.refuse(/./, 'Operation not permitted');
  const next = planOf(dns('10.1.1.54'));
  await expect(dataplane.sync(next, ['default/web', 'default/dns'], [])).rejects.toThrow(
    'CAP_NET_ADMIN',
  );
  const before = nft.lists();
  nft.refuse();
  await dataplane.sync(next, ['default/web', 'default/dns'], []);
  expect(nft.lists()).toBe(before + 1);
});

test('chains that the kernel cannot remove yet are emptied, and removed later', async () => {
  const { dataplane, nft } = written();
  await dataplane.sync(planOf(web('10.1.1.5'), dns('10.1.1.53')), 'all', []);
  nft.scripts();
  nft.refuse(/^delete chain/, 'Device or resource busy');
  await dataplane.sync(planOf(dns('10.1.1.53')), ['default/web'], []);
  const [first] = nft.scripts();
  expect(lineOf(first)).toContain('flush chain ip fairlead service-default/web/tcp/http');
  expect(first).not.toContain('delete chain');
  nft.refuse();
  await dataplane.sync(planOf(dns('10.1.1.54')), ['default/dns'], []);
  const [second] = nft.scripts();
  expect(lineOf(second)).toContain('delete chain ip fairlead service-default/web/tcp/http');
});

test('a failure says what was refused and what to do', () => {
  expect(failureOf('', { code: 127, stderr: 'spawn nft ENOENT' }).reason).toBe(
    'nft is not installed: install nftables',
  );
  const script = 'add element ip fairlead service-ips { 10.96.0.1 . tcp . 1 : drop }\n';
  const stderr = '/dev/stdin:1:39-57: Error: Could not process rule: No space left on device';
  expect(failureOf(script, { code: 1, stderr }).reason).toBe(
    'nft failed at `10.96.0.1 . tcp . 1`: Could not process rule: No space left on device; a set is full',
  );
  const plan = planOf(web('10.1.1.5'));
  const line =
    'add rule ip fairlead x meta l4proto tcp dnat to 10.1.1.5:8080 comment "default/web:http"';
  expect([serviceOfLine(line, plan), serviceOfLine(undefined, plan)]).toEqual([
    'default/web',
    undefined,
  ]);
});
