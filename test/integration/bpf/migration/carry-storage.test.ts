// SPDX-License-Identifier: Apache-2.0
// Records in the storage of sockets, which only programs can write: maps of another version have them of the same sockets. Where the kernel
// refuses these programs (before Linux 5.11), it is said of each map.
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { release } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadLayer } from '../../../../src/engines/bpf/kernel/loader/load.ts';
import { pinFolder } from '../../../../src/engines/bpf/kernel/loader/pins.ts';
import { closeAll } from '../../../../src/engines/bpf/kernel/loader/undo.ts';
import { migrateMaps } from '../../../../src/engines/bpf/kernel/migration/migrate.ts';
import { encodeU32 } from '../../../../src/engines/bpf/layout/layout.ts';
import {
  type MapVersions,
  mapPin,
  type PinnedMap,
  parseMapPin,
} from '../../../../src/engines/bpf/layout/versions.ts';
import { CARRYING } from '../../../../src/engines/bpf/migration/policy.ts';
import { openPinnedMap } from '../../../../src/sys/native.ts';
import { packageRoot } from '../../../../src/sys/package.ts';
import {
  mapIteratorRefusal,
  skipWithoutMapIterators,
} from '../../../support/programs/map-iterators.ts';
import { makeBpffs, type TestResource } from '../../native/support/resources.ts';

const built = (name: string): string => join(packageRoot(), `build/bpf/${name}.bpf.o`);
const MAPS = ['fl_sock', 'fl_udp_sock'] as const;
const [major = 0, minor = 0] = release().split('.').map(Number);
const CAN_CARRY = major > 5 || (major === 5 && minor >= 11);

const raised = Object.fromEntries(
  (Object.keys(CARRYING) as PinnedMap[]).map((name) => {
    const { version = 1 } = parseMapPin(mapPin(name)) ?? {};
    return [name, version + 1];
  }),
) as MapVersions;

let bpffs: TestResource;
const sockets: Server[] = [];
const lost: string[] = [];

beforeAll(async () => {
  bpffs = makeBpffs();
  const folder = pinFolder(bpffs.path);
  mkdirSync(folder.maps, { recursive: true });
  const objects = [{ bytes: readFileSync(built('sock')), rodata: [{}] }];
  const layers = [{ name: 'maps', objects, hooks: [] }];
  const { maps } = await loadLayer(layers[0]!, { folder, sizes: {} }, []);
  for (let n = 0; n < 3; n += 1) sockets.push(createServer().listen(0, '127.0.0.1'));
  await Promise.all(sockets.map((one) => once(one, 'listening')));
  for (const name of MAPS) {
    const map = maps.get(name)!;
    for (const n of [1, 2]) map.put(keyOf(n), recordOf(map.info.valueSize, n));
  }
  closeAll(maps.values());
  const storage = {
    object: () => readFileSync(built('carry')),
    lost: (map: PinnedMap, reason: unknown) => lost.push(`${map}: ${reason}`),
  };
  const options = { bpfRoot: bpffs.path, layers, sizes: {}, storage };
  // The first one records which fields they have.
  for (const versions of [undefined, raised]) {
    const carry = await migrateMaps({ ...options, versions });
    await carry.before('sockets');
    await carry.before('flows');
    await carry.linked();
    await carry.after();
  }
});
afterAll(() => {
  for (const socket of sockets) socket.close();
  bpffs?.release();
});

/** Programs ask by the socket, processes by its descriptor. */
function keyOf(n: number): Uint8Array {
  const { _handle: handle } = sockets[n] as unknown as {
    readonly _handle: { readonly fd: number };
  };
  return encodeU32(handle.fd);
}

const recordOf = (bytes: number, n: number): Uint8Array => new Uint8Array(bytes).fill(n);

describe.skipIf(!CAN_CARRY)('Linux 5.11 and newer', () => {
  // Older ones do not know such iterators, which is tested below.
  skipWithoutMapIterators(CAN_CARRY ? mapIteratorRefusal() : undefined);
  test.each(MAPS)('%s: each socket has its own record, and one without has none', (name) => {
    const map = openPinnedMap(join(pinFolder(bpffs.path).maps, mapPin(name, raised)));
    const found = sockets.map((_, n) => map.get(keyOf(n)));
    const { valueSize } = map.info;
    map.close();
    expect(lost).toEqual([]);
    expect(found).toEqual([undefined, recordOf(valueSize, 1), recordOf(valueSize, 2)]);
  });
});

test.skipIf(CAN_CARRY)('before Linux 5.11: each map whose records stay behind is named', () => {
  expect(new Set(lost.map((line) => line.split(':')[0]))).toEqual(new Set(MAPS));
});
