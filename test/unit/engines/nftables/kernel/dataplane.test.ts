// SPDX-License-Identifier: Apache-2.0
// What the nftables dataplane asks of nft, and what becomes of a transaction that is refused.
import { expect, test } from 'vitest';
import { NFTABLES } from '../../../../../src/engines/capabilities.ts';
import { createNftablesDataplane } from '../../../../../src/engines/nftables/kernel/dataplane.ts';
import { familyTable } from '../../../../../src/engines/nftables/kernel/family-table.ts';
import { createRenderer } from '../../../../../src/engines/nftables/rows/render.ts';
import { failureOf, serviceOfLine } from '../../../../../src/engines/nftables/state/failure.ts';
import { SYSTEM_CLOCK } from '../../../../../src/sys/clock.ts';
import { DEFAULTS } from '../../../../support/nftables/transactions.ts';
import { backend, clusterIp, planOf, servicePort } from '../../bpf/plans.ts';

const web = (...backends: readonly string[]) =>
  servicePort(
    'web',
    [clusterIp('10.96.0.10')],
    backends.map((address) => backend(address)),
  );
const dns = (address: string) =>
  servicePort('dns', [clusterIp('10.96.0.53', 53)], [backend(address, 53)]);

/** An nft that keeps what it is given, and refuses lines. */
function memoryNft() {
  const scripts: string[] = [];
  let refused: readonly [RegExp, string] | undefined;
  let lists = 0;
  const nft = {
    list: async () => {
      lists += 1;
      return '';
    },
    write: async (script: string) => {
      const lines = script.split('\n');
      const at = refused === undefined ? -1 : lines.findIndex((line) => refused?.[0].test(line));
      if (at < 0) {
        scripts.push(script);
        return undefined;
      }
      const stderr = `/dev/stdin:${at + 1}:1-5: Error: Could not process rule: ${refused?.[1]}`;
      return failureOf(script, { code: 1, stderr });
    },
  };
  const dataplane = createNftablesDataplane({
    capabilities: NFTABLES,
    installation: { hooks: [], refusesWith: 'ECONNREFUSED', refused: [] },
    tables: [familyTable('IPv4', nft)],
    renderer: createRenderer(DEFAULTS),
    clock: { ...SYSTEM_CLOCK, after: () => () => undefined },
    ...{ minSyncPeriodMs: 0, syncPeriodMs: 30_000 },
    generation: () => undefined,
    close: () => undefined,
    log: { warn: () => undefined },
  });
  return {
    dataplane,
    take: () => scripts.splice(0),
    lists: () => lists,
    refuse(pattern: RegExp, reason: string) {
      refused = [pattern, reason];
    },
    acceptAll() {
      refused = undefined;
    },
  };
}

const lineOf = (script: string | undefined): readonly string[] =>
  (script ?? '').split('\n').map((line) => line.replaceAll(/[A-Z2-7]{8}-default/g, 'default'));

test('of a backend that is replaced only its element is written, without reading', async () => {
  const { dataplane, take, lists } = memoryNft();
  await dataplane.sync(planOf(web('10.1.1.5', '10.1.1.6'), dns('10.1.1.53')), 'all', []);
  take();
  const before = lists();
  const next = planOf(web('10.1.1.5', '10.1.1.7'), dns('10.1.1.53'));
  const { applied } = await dataplane.sync(next, ['default/web'], []);
  const [script] = take();
  expect(lineOf(script)).toEqual([
    'delete element ip fairlead endpoints-tcp-0 { 1 : 10.1.1.6 . 8080 }',
    'add element ip fairlead endpoints-tcp-0 { 1 : 10.1.1.7 . 8080 }',
    '',
  ]);
  expect([applied, lists()]).toEqual([2, before]);
  await dataplane.sync(next, ['default/web'], []);
  expect(take()).toEqual([]);
});

test('a Service of which a rule is refused keeps what it had, and all others are written', async () => {
  const { dataplane, take, refuse, acceptAll } = memoryNft();
  await dataplane.sync(planOf(web('10.1.1.5'), dns('10.1.1.53')), 'all', []);
  take();
  refuse(/10\.1\.1\.7/, 'Operation not supported');
  const next = planOf(web('10.1.1.7'), dns('10.1.1.54'));
  const { failed } = await dataplane.sync(next, ['default/web', 'default/dns'], []);
  expect(failed).toMatchObject([
    { service: 'default/web', reason: expect.stringContaining('the kernel may lack a module') },
  ]);
  const [script = ''] = take();
  expect(script).toContain('10.1.1.54');
  expect(script).toContain('10.1.1.5:8080');
  expect(script).not.toContain('10.1.1.7');
  acceptAll();
  expect((await dataplane.sync(next, ['default/web'], [])).failed).toEqual([]);
  expect(take().join()).toContain('10.1.1.7:8080');
});

test('a transaction of which nobody knows whose it is fails as a whole, and all is read again', async () => {
  const { dataplane, refuse, acceptAll, lists } = memoryNft();
  await dataplane.sync(planOf(web('10.1.1.5')), 'all', []);
  refuse(/./, 'Operation not permitted');
  const next = planOf(dns('10.1.1.54'));
  await expect(dataplane.sync(next, ['default/web', 'default/dns'], [])).rejects.toThrow(
    'CAP_NET_ADMIN',
  );
  const before = lists();
  acceptAll();
  await dataplane.sync(next, ['default/web', 'default/dns'], []);
  expect(lists()).toBe(before + 1);
});

test('chains that the kernel cannot remove yet are emptied, and removed later', async () => {
  const { dataplane, take, refuse, acceptAll } = memoryNft();
  await dataplane.sync(planOf(web('10.1.1.5'), dns('10.1.1.53')), 'all', []);
  take();
  refuse(/^delete chain/, 'Device or resource busy');
  await dataplane.sync(planOf(dns('10.1.1.53')), ['default/web'], []);
  const [first] = take();
  expect(lineOf(first)).toContain('flush chain ip fairlead service-default/web/tcp/http');
  expect(first).not.toContain('delete chain');
  acceptAll();
  await dataplane.sync(planOf(dns('10.1.1.54')), ['default/dns'], []);
  const [second] = take();
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
