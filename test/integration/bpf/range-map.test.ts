// SPDX-License-Identifier: Apache-2.0
// fl_range in the kernel: it prints as people write ranges, says when it is full, and while ranges around it come
// and go, a source in a range that stays is always admitted and one in none never.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { kernelTables } from '../../../src/engines/bpf/kernel/maps/kernel.ts';
import { encodeRange, encodeRangeKey } from '../../../src/engines/bpf/layout/layout.ts';
import { createTableSync } from '../../../src/engines/bpf/state/table-sync.ts';
import { mountBpffs, unmount } from '../../../src/sys/native.ts';
import { applyAll } from '../../support/dataplane/apply-all.ts';
import { rangesIn } from '../../support/dataplane/source-ranges.ts';
import { backend, clusterIp, planOf, servicePort } from '../../unit/engines/bpf/plans.ts';
import { Drive, encodeRequest } from './support/drive.ts';

const VIP = '203.0.113.10';
const STAYS = '198.51.100.0/24';
const SOURCES = { inside: '198.51.100.9', outside: '198.51.101.9' };
/** Prefixes of both, neighbours, and children: every way in which a trie is changed. */
const COMING_AND_GOING = [
  ...['198.51.100.0/25', '198.51.100.8/29', '198.51.100.9/32', '198.51.100.128/25'],
  ...['198.51.102.0/24', '198.51.104.0/21', '198.51.0.0/19', '10.0.0.0/8', '198.51.103.7/32'],
];
const LOOKUPS = 5_000_000;
const PER_CALL = 250_000;
const addon =
  process.env['FAIRLEAD_ADDON'] ??
  fileURLToPath(new URL('../../../build/native/fairlead.node', import.meta.url));

let drive: Drive;
let pins: string;
beforeEach(() => {
  pins = mkdtempSync(join(tmpdir(), 'fairlead-ranges-'));
  mountBpffs(pins);
  drive = new Drive({ fl_range: 16 });
  drive.object.map('fl_range').pin(join(pins, 'fl_range'));
});
afterEach(() => {
  drive?.close();
  unlinkSync(join(pins, 'fl_range'));
  unmount(pins);
  rmdirSync(pins);
});

const web = (...ranges: readonly string[]) =>
  planOf(
    servicePort(
      'web',
      [{ ...clusterIp(VIP), kind: 'LoadBalancer', isFiltered: true }],
      [backend('10.1.1.5')],
      { sources: { policy: 'allow', ranges } },
    ),
  );

test('bpftool prints ranges with their kind', () => {
  drive.putRange(7, STAYS);
  drive.putRange(0, '2001:db8:1::/48');
  const dump = execFileSync('bpftool', ['map', 'dump', 'pinned', join(pins, 'fl_range')], {
    encoding: 'utf8',
  });
  expect(dump).toContain('"prefixlen": 152');
  expect(dump).toContain('"service_id": 7');
  expect(dump).toContain('255,255,198,51,100,0');
  expect(dump).toContain('"kind": "RANGE_ALLOWED"');
  expect(dump).toContain('"kind": "RANGE_POD"');
});

test('a full table is reported by name, and nothing of the Service is left', async () => {
  const tables = kernelTables((name) => drive.object.map(name));
  const sync = createTableSync(tables, () => Promise.resolve());
  const many = Array.from({ length: 17 }, (_, n) => `10.0.${n}.0/24`);
  expect(applyAll(sync, web(...many)).failed).toMatchObject([
    { code: 'MAP_FULL', map: 'fl_range', service: 'default/web' },
  ]);
  expect(rangesIn(tables)).toEqual([]);
  expect(applyAll(sync, web(...many.slice(0, 16))).failed).toEqual([]);
  expect(rangesIn(tables)).toHaveLength(16);
  const again = createTableSync(tables, () => Promise.resolve());
  expect([...again.findDrift()].flat()).toEqual([]);
  // New ranges need room beside the old ones.
  expect(applyAll(again, web(STAYS)).failed).toMatchObject([{ code: 'MAP_FULL' }]);
  expect(rangesIn(tables)).toHaveLength(16);
  applyAll(again, planOf());
  await again.releaseRetired();
  expect(applyAll(again, web(STAYS)).failed).toEqual([]);
  expect(rangesIn(tables)).toEqual([expect.stringMatching(` ${STAYS}$`)]);
});

test('while ranges come and go, those that stay admit everyone in them and no one else', async () => {
  drive.putBackend({ id: 1, address: '10.1.1.5', port: 8080 });
  const set = drive.putSet(0, [1]);
  drive.putFrontend({ address: VIP, port: 80, rules: { host: { set, hasSourceRanges: true } } });
  drive.putRange(1, STAYS);
  const control = new SharedArrayBuffer(8);
  const shared = new Int32Array(control);
  const keys = COMING_AND_GOING.map((prefix) => encodeRangeKey({ serviceId: 1, prefix }));
  const value = encodeRange('allowed', 'IPv4');
  const worker = new Worker(new URL('./support/range-writer.mjs', import.meta.url), {
    workerData: { addon, pin: join(pins, 'fl_range'), keys, value, control },
  });
  const died = new Promise<never>((_, reject) => worker.once('error', reject));
  const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  const picked = new BigUint64Array(drive.object.map('fl_picked').mmap());
  const count = (source: string): void => {
    const dataIn = encodeRequest({ to: VIP, port: 80, source, isPacket: true });
    drive.object.program('fl_drive_count').testRun({ dataIn, repeat: PER_CALL });
  };
  try {
    while (Atomics.load(shared, 1) === 0) await Promise.race([turn(), died]);
    for (let done = 0; done < LOOKUPS; done += 2 * PER_CALL) {
      count(SOURCES.inside);
      count(SOURCES.outside);
      await Promise.race([turn(), died]);
    }
  } finally {
    Atomics.store(shared, 0, 1);
    await Promise.race([ended, died]);
  }
  process.stdout.write(`${LOOKUPS} selections, ${shared[1]} rounds of changes\n`);
  expect([picked[1], picked[0]]).toEqual([BigInt(LOOKUPS / 2), BigInt(LOOKUPS / 2)]);
  expect(shared[1]).toBeGreaterThan(100);
});
