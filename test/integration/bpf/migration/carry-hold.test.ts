// SPDX-License-Identifier: Apache-2.0
// How long no flow begins while flows are carried over to other maps: as long as a large table takes.
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { loadLayer } from '../../../../src/dataplane/bpf/loader/load.ts';
import { declaredMaps } from '../../../../src/dataplane/bpf/loader/migration/changes.ts';
import { releaseFlows } from '../../../../src/dataplane/bpf/loader/migration/hold.ts';
import { migrateMaps } from '../../../../src/dataplane/bpf/loader/migration/migrate.ts';
import { pinFolder } from '../../../../src/dataplane/bpf/loader/pins.ts';
import { closeAll } from '../../../../src/dataplane/bpf/loader/undo.ts';
import { mapPin } from '../../../../src/dataplane/bpf/loader/versions.ts';
import { makeBpffs, type TestResource } from '../../native/support/resources.ts';
import { mapsObject } from '../support/layouts.ts';

/** Of three batches. */
const FLOWS = 10_000;
const BATCHES = 3;

let bpffs: TestResource;
let bytes: Uint8Array;
let bpfRoot: string;
beforeAll(() => {
  bpffs = makeBpffs();
  bytes = mapsObject('present');
});
afterAll(() => bpffs?.release());
beforeEach(async () => {
  bpfRoot = join(bpffs.path, 'root');
  mkdirSync(pinFolder(bpfRoot).maps, { recursive: true });
  const { maps } = await loadLayer(layer(), { folder: pinFolder(bpfRoot), sizes: {} }, []);
  const flows = maps.get('fl_flow4')!;
  const { keySize, valueSize } = flows.info;
  const keys = new Uint8Array(FLOWS * keySize);
  for (let n = 0; n < FLOWS; n += 1) new DataView(keys.buffer).setUint32(n * keySize, n);
  flows.putBatch(keys, new Uint8Array(FLOWS * valueSize));
  closeAll(maps.values());
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(bpfRoot, { recursive: true });
});

const layer = () => ({ name: 'maps', objects: [{ bytes, rodata: [{}] }], hooks: [] });
const SIZES = { fl_flow4: 20_000 };

test('each batch of a table renews it', async () => {
  const carry = await migrateMaps({ bpfRoot, layers: [layer()], sizes: SIZES });
  const clock = vi.spyOn(process.hrtime, 'bigint');
  await carry.before('flows');
  // Before the first table, with each batch, and before the links.
  expect(clock.mock.calls.length).toBeGreaterThanOrEqual(2 + BATCHES);
  await carry.linked();
  await carry.after();
});

test('a map whose fields are not known is not left open', () => {
  const { maps } = pinFolder(bpfRoot);
  const pin = mapPin('fl_packet');
  const known = { bpfRoot, declared: declaredMaps([], {}) };
  const open = (): number => readdirSync('/proc/self/fd').length;
  const before = open();
  for (let n = 0; n < 10; n += 1) expect(() => releaseFlows(known)).toThrow(join(maps, pin));
  expect(open()).toBe(before);
});
