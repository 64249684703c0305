// SPDX-License-Identifier: Apache-2.0
// Objects: opening, configuring, loading, load errors, and handles that outlive them.
import { mkdirSync, unlinkSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type BpfObject,
  type NativeError,
  openObject,
  openPinnedMap,
} from '../../../src/sys/native.ts';
import { caught } from './support/errors.ts';
import {
  fixtureBytes,
  frame,
  loadFixture,
  missing,
  readU32,
  refusedBytes,
  u32,
  u64,
} from './support/fixture.ts';
import { descriptorCount, makeBpffs, type TestResource } from './support/resources.ts';

describe.skipIf(missing !== undefined)('objects', () => {
  let bpffs: TestResource;
  beforeAll(() => {
    bpffs = makeBpffs();
  });
  afterAll(() => bpffs.release());

  function opened(use: (object: BpfObject) => void): void {
    const object = openObject(fixtureBytes, { name: 'fixture' });
    object.setAutoload('either_connect', false);
    try {
      use(object);
    } finally {
      object.close();
    }
  }

  test('lists maps and programs before load', () => {
    opened((object) => {
      expect(object.maps).toContain('table');
      expect(object.maps).toContain('fixture.rodata');
      expect(object.programs).toContainEqual({ name: 'first_tc', section: 'tc' });
      expect(object.programs).toContainEqual({
        name: 'allow_connect4',
        section: 'cgroup/connect4',
      });
    });
  });

  test('bytes that are not an object are rejected with libbpf’s message', () => {
    for (const bytes of [new Uint8Array(), new Uint8Array(100), fixtureBytes.subarray(0, 200)]) {
      expect(caught(() => openObject(bytes))).toMatchObject({ op: 'bpf_object__open_mem' });
    }
    expect(caught(() => openObject(new Uint8Array(100))).message).toMatch(/ELF/i);
  });

  test('read-only variables are set by name and seen by the program', () => {
    const object = loadFixture((fresh) => {
      fresh.setRodata('verdict', u32(41));
      fresh.setRodata('pair', new Uint8Array([20, 30]));
      fresh.setRodata('size_of_things', u64(0x100000000n));
    });
    const context = new Uint8Array(192);
    const ran = object.program('first_tc').testRun({ dataIn: frame(), contextIn: context });
    expect(ran.retval).toBe(41);
    // __sk_buff.mark is its third word.
    expect(readU32(ran.contextOut, 2)).toBe(51);
    object.close();
  });

  test('a read-only variable must exist and have its size', () => {
    opened((object) => {
      expect(caught(() => object.setRodata('verdict', new Uint8Array(3)))).toMatchObject({
        code: 'ARGUMENT',
        message: expect.stringContaining('4 bytes, not 3'),
      });
      expect(caught(() => object.setRodata('nothing', u32(1))).code).toBe('ENOENT');
      expect(caught(() => object.setRodata('writable', u64(1n))).code).toBe('ENOENT');
    });
  });

  test('maps are sized before load', () => {
    const object = loadFixture((fresh) => fresh.setMaxEntries('table', 123));
    const map = object.map('table');
    expect(map.info).toMatchObject({ name: 'table', type: 1, keySize: 4, valueSize: 8 });
    expect(map.info.maxEntries).toBe(123);
    map.close();
    object.close();
  });

  test('unknown names throw ENOENT', () => {
    opened((object) => {
      for (const call of [
        () => object.setMaxEntries('none', 1),
        () => object.setAutoload('none', true),
        () => object.setExpectedAttachType('none', 1),
        () => object.setProgramFlags('none', 0),
        () => object.reusePin('none', `${bpffs.path}/none`),
      ]) {
        expect(caught(call).code).toBe('ENOENT');
      }
    });
    const object = loadFixture();
    expect(caught(() => object.map('none'))).toMatchObject({ code: 'ENOENT' });
    expect(caught(() => object.program('none'))).toMatchObject({ code: 'ENOENT' });
    object.close();
  });

  test('configuring after load and handles before load throw STATE', () => {
    opened((object) => {
      expect(caught(() => object.map('table')).code).toBe('STATE');
      expect(caught(() => object.program('first_tc')).code).toBe('STATE');
    });
    const object = loadFixture();
    const map = object.map('table');
    for (const call of [
      () => object.load(),
      () => object.setRodata('verdict', u32(1)),
      () => object.setMaxEntries('table', 1),
      () => object.setAutoload('first_tc', false),
      () => object.setExpectedAttachType('first_tc', 1),
      () => object.setProgramFlags('first_tc', 0),
      () => object.reusePin('table', `${bpffs.path}/none`),
      () => object.reuseMap('table', map),
      () => object.program('either_connect'),
    ]) {
      expect(caught(call).code).toBe('STATE');
    }
    map.close();
    object.close();
  });

  test('the expected attach type decides what a program may do', () => {
    const connect4 = 10;
    const object = loadFixture((fresh) => {
      fresh.setAutoload('either_connect', true);
      fresh.setExpectedAttachType('either_connect', connect4);
    });
    expect(object.program('either_connect').info.id).toBeGreaterThan(0);
    object.close();
    const refused = caught(() => loadFixture((fresh) => fresh.setAutoload('either_connect', true)));
    expect(refused).toMatchObject({ code: 'VERIFIER' });
  });

  test('a rejected program: the message has the useful lines, `log` the whole log', () => {
    const object = openObject(refusedBytes);
    const error = caught(() => object.load());
    expect(error).toMatchObject({ code: 'VERIFIER', op: 'bpf_object__load', errno: 13 });
    expect(error.message).toContain('program careless was refused (EACCES)');
    expect(error.message).toContain("R0 invalid mem access 'map_value_or_null'");
    expect(error.message).not.toContain('processed ');
    expect(error.message.split('\n').length).toBeLessThanOrEqual(9);
    expect(error.log).toContain('processed ');
    object.close();
    const without = openObject(refusedBytes);
    without.setAutoload('careless', false);
    without.load();
    without.close();
  });

  test('a map that the kernel cannot create throws its errno, not VERIFIER', () => {
    opened((object) => {
      object.setMaxEntries('table', 0);
      const error = caught(() => object.load());
      expect(error.code).toMatch(/^E[A-Z0-9]+$/);
      expect(error.message).toContain('table');
    });
  });

  test('handles stay valid after the object is closed', () => {
    const object = loadFixture();
    const map = object.map('table');
    const program = object.program('first_tc');
    object.close();
    map.put(u32(1), u64(2n));
    expect(map.get(u32(1))).toEqual(u64(2n));
    expect(program.testRun({ dataIn: frame() }).retval).toBe(3);
    program.close();
    map.close();
  });

  test('a pinned map is used again, with its contents', () => {
    const path = `${bpffs.path}/table`;
    opened((object) => {
      expect(object.reusePin('table', path)).toBe(false);
      object.load();
      const map = object.map('table');
      map.put(u32(7), u64(70n));
      map.pin(path);
      map.close();
    });
    opened((object) => {
      expect(object.reusePin('table', path)).toBe(true);
      object.load();
      const map = object.map('table');
      expect(map.get(u32(7))).toEqual(u64(70n));
      map.close();
    });
    unlinkSync(path);
  });

  test('loads on another thread while the event loop runs', async () => {
    // This thread may lose its CPU for longer than a load takes: one of many loads shows it.
    let wasLoading = false;
    for (let load = 0; load < 50 && !wasLoading; load += 1) {
      const object = openObject(fixtureBytes, { name: 'fixture' });
      object.setAutoload('either_connect', false);
      let isLoading = true;
      const loaded = object.loadAsync().finally(() => {
        isLoading = false;
      });
      await new Promise((resolve) => setImmediate(resolve));
      wasLoading = isLoading;
      await loaded;
      object.close();
    }
    expect(wasLoading).toBe(true);
  });

  test('other methods throw during a load on another thread', async () => {
    const object = openObject(fixtureBytes, { name: 'fixture' });
    object.setAutoload('either_connect', false);
    const loaded = object.loadAsync();
    for (const call of [
      () => object.setRodata('verdict', u32(1)),
      () => object.maps,
      () => object.programs,
      () => object.map('table'),
      () => object.load(),
      () => void object.loadAsync(),
    ]) {
      expect(caught(call), call.toString()).toMatchObject({ code: 'STATE' });
    }
    await loaded;
    expect(object.program('first_tc').testRun({ dataIn: frame() }).retval).toBe(3);
    object.close();
  });

  test('an error on another thread has the verifier’s message', async () => {
    const object = openObject(refusedBytes);
    const error = await object.loadAsync().catch((refused: NativeError) => refused);
    expect(error).toMatchObject({ code: 'VERIFIER', op: 'bpf_object__load' });
    expect((error as NativeError).log?.length).toBeGreaterThan(100);
    object.close();
  });

  test('closed or unreferenced during a load: the load completes by itself', async () => {
    const before = descriptorCount();
    const closed = openObject(refusedBytes);
    const refused = closed.loadAsync();
    closed.close();
    expect(caught(() => closed.maps).code).toBe('CLOSED');
    await expect(refused).rejects.toMatchObject({ code: 'VERIFIER' });
    // There may be fewer if garbage of earlier tests was collected meanwhile.
    expect(descriptorCount()).toBeLessThanOrEqual(before);
  });

  test('a map of another object is used', () => {
    const first = loadFixture();
    const map = first.map('plain');
    opened((second) => {
      second.reuseMap('plain', map);
      second.load();
      const program = second.program('first_tc');
      program.testRun({ dataIn: frame() });
      expect(map.get(u32(0))?.[0]).toBe(1);
      program.close();
      expect(second.map('plain').info.id).toBe(map.info.id);
    });
    map.close();
    first.close();
  });

  test('an incompatible map names every field that differs', () => {
    const first = loadFixture();
    const cpuArray = first.map('cpu_array');
    const path = `${bpffs.path}/routes`;
    const routes = first.map('routes');
    routes.pin(path);
    opened((object) => {
      const error = caught(() => object.reusePin('table', path));
      expect(error.code).toBe('INCOMPATIBLE');
      expect(error.message).toContain(
        'type 11, not 1; key size 8, not 4; value size 4, not 8; flags 1, not 0',
      );
      object.setMaxEntries('table', 9);
      expect(caught(() => object.reusePin('table', path)).message).toContain(
        'max entries 8, not 9',
      );
      expect(caught(() => object.reuseMap('table', cpuArray)).message).toContain('type 6, not 1');
      expect(caught(() => object.reuseMap('table', object as never)).code).toBe('ARGUMENT');
      cpuArray.close();
      expect(caught(() => object.reuseMap('table', cpuArray)).code).toBe('CLOSED');
    });
    unlinkSync(path);
    routes.close();
    first.close();
  });

  test('a pin that is not a map is rejected, and so is a path that is not a pin', () => {
    const first = loadFixture();
    const path = `${bpffs.path}/program`;
    first.program('first_tc').pin(path);
    mkdirSync(`${bpffs.path}/folder`);
    opened((object) => {
      expect(caught(() => object.reusePin('table', path))).toMatchObject({ code: 'ARGUMENT' });
      expect(caught(() => object.reusePin('table', `${bpffs.path}/folder`)).op).toBe('bpf_obj_get');
    });
    expect(caught(() => openPinnedMap(path)).message).toContain('bpf-prog');
    unlinkSync(path);
    first.close();
  });

  test('a file outside a bpf file system is not a pin', () => {
    const path = `/tmp/fairlead-native-${process.pid}`;
    writeFileSync(path, '');
    expect(caught(() => openPinnedMap(path))).toMatchObject({ op: 'bpf_obj_get' });
    unlinkSync(path);
  });
});
