// SPDX-License-Identifier: Apache-2.0
// Entries of the kernel's connection tracking, read and deleted in a network namespace of its own.
import { execFileSync } from 'node:child_process';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { addNamespaces, deleteNamespaces, insideNamespace } from '../../../../src/sys/netns.ts';
import type { TrackedFlow } from '../../../support/conntrack.ts';
import { startTableProcess, type TableProcess } from './table-process.ts';

const NAME = `flct${process.pid}`;
const DNS: TrackedFlow = {
  ...{ protocol: 'UDP', source: '10.1.0.7', sourcePort: 40000 },
  ...{ destination: '10.96.0.10', destinationPort: 53 },
  ...{ backend: '10.1.1.5', backendPort: 5353 },
};
const DNS6: TrackedFlow = {
  ...DNS,
  ...{ source: 'fd00:1::7', destination: 'fd00:96::a', backend: 'fd00:1::5' },
};

let table: TableProcess;
beforeEach(async () => {
  deleteNamespaces([NAME]);
  addNamespaces([NAME]);
  table = await startTableProcess(NAME);
});
afterEach(async () => {
  await table.end();
  deleteNamespaces([NAME]);
});

/** How the kernel itself shows the table. */
const procLines = (): readonly string[] => {
  const [program = '', ...args] = insideNamespace(NAME, ['cat', '/proc/net/nf_conntrack']);
  const text = execFileSync(program, args, { encoding: 'utf8' });
  return text.split('\n').filter((line) => line !== '');
};

test('reads what the kernel tracks, and deletes single entries', async () => {
  const other = { ...DNS, sourcePort: 40001, destinationPort: 80, protocol: 'TCP' } as const;
  await table.track(DNS, other, DNS6);
  expect(await table.flows()).toEqual([
    'tcp 10.96.0.10:80 <- 10.1.1.5:5353',
    'udp 10.96.0.10:53 <- 10.1.1.5:5353',
  ]);
  expect(await table.flows('IPv6')).toEqual(['udp fd00:96::a:53 <- fd00:1::5:5353']);
  expect(await table.remove('UDP', 53)).toMatchObject({ entries: 2, deleted: 1, isWhole: true });
  expect(await table.flows()).toEqual(['tcp 10.96.0.10:80 <- 10.1.1.5:5353']);
  expect(procLines()).toHaveLength(2);
});

test('SCTP and zones', async () => {
  const sctp = { ...DNS, protocol: 'SCTP' } as const;
  // The same addresses twice: only the zone tells them apart.
  await table.track(sctp, { ...sctp, zone: 7 }, { ...sctp, sourcePort: 1, destinationPort: 9 });
  expect(procLines()).toHaveLength(3);
  expect(await table.remove('SCTP', 53)).toMatchObject({ entries: 3, deleted: 2 });
  expect(procLines()).toHaveLength(1);
});

test('200,000 entries neither stall the event loop nor fill the memory', async () => {
  // Another backend port, too: answers tell entries apart as well.
  const keep = { ...DNS, destinationPort: 5300, backendPort: 5300 };
  await table.trackMany(keep, 100_000);
  await table.trackMany(DNS, 100_000);
  const none = await table.remove('SCTP', 53);
  const all = await table.remove('UDP', 53);
  for (const { entries, deleted, elapsedMs, p99Ms, maxMs, turnMs, rssMiB } of [none, all]) {
    const figures = [elapsedMs, p99Ms, maxMs, turnMs, rssMiB].map((value) => value.toFixed(1));
    const [took, p99, max, turn, rss] = figures;
    process.stdout.write(
      `${entries} entries read, ${deleted} deleted in ${took} ms; event loop late by ${p99} ms (p99), ${max} ms (max), longest turn ${turn} ms of CPU; ${rss} MiB\n`,
    );
  }
  expect(none).toMatchObject({ entries: 200_000, deleted: 0, isWhole: true });
  expect(all).toMatchObject({ entries: 200_000, deleted: 100_000, isWhole: true });
  // How late the event loop is also tells what other processes did to this one: that is only shown.
  expect(Math.max(none.turnMs, all.turnMs)).toBeLessThan(60);
  expect(all.rssMiB).toBeLessThan(150);
  expect(await table.remove('UDP', 5300)).toMatchObject({ entries: 100_000, deleted: 100_000 });
});

test('without CAP_NET_ADMIN the kernel refuses by name', async () => {
  const bounded = await startTableProcess(NAME, (argv) => [
    ...['setpriv', '--bounding-set', '-net_admin', '--inh-caps', '-all', '--'],
    ...argv,
  ]);
  expect(await bounded.ask('list', { family: 'IPv4' })).toMatchObject({ code: 'EPERM' });
  await bounded.end();
});
