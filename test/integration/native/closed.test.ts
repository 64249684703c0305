// SPDX-License-Identifier: Apache-2.0
// Each method throws on a closed handle and on a foreign `this`.
import { describe, expect, test } from 'vitest';
import {
  type BpfLink,
  type BpfMap,
  type BpfObject,
  type BpfProgram,
  openRingBuffer,
} from '../../../src/sys/native.ts';
import { caught } from './support/errors.ts';
import { frame, loadFixture, missing, u32, u64 } from './support/fixture.ts';
import { makeCgroup } from './support/resources.ts';

const mapCalls: Record<Exclude<keyof BpfMap, 'info' | 'close'>, (map: BpfMap) => unknown> = {
  get: (map) => map.get(u32(1)),
  put: (map) => map.put(u32(1), u64(1n)),
  delete: (map) => map.delete(u32(1)),
  putBatch: (map) => map.putBatch(u32(1), u64(1n)),
  putProgram: (map) => map.putProgram(u32(0), undefined as never),
  deleteBatch: (map) => map.deleteBatch(u32(1)),
  readAll: (map) => map.readAll(),
  readBatch: (map) => map.readBatch(1),
  mmap: (map) => map.mmap(),
  munmap: (map) => map.munmap(new ArrayBuffer(8)),
  pin: (map) => map.pin('/tmp/x'),
};
const programCalls: Record<
  Exclude<keyof BpfProgram, 'info' | 'name' | 'close'>,
  (program: BpfProgram) => unknown
> = {
  testRun: (program) => program.testRun({ dataIn: frame() }),
  attachCgroup: (program) => program.attachCgroup('/tmp', 10),
  attachTc: (program) => program.attachTc(1, 'ingress'),
  attachXdp: (program) => program.attachXdp(1),
  attachTracepoint: (program) => program.attachTracepoint('xdp_exception'),
  pin: (program) => program.pin('/tmp/x'),
};
const objectCalls: Record<Exclude<keyof BpfObject, 'close'>, (object: BpfObject) => unknown> = {
  setRodata: (object) => object.setRodata('verdict', u32(1)),
  setMaxEntries: (object) => object.setMaxEntries('table', 1),
  reusePin: (object) => object.reusePin('table', '/tmp/x'),
  reuseMap: (object) => object.reuseMap('table', undefined as never),
  setAutoload: (object) => object.setAutoload('first_tc', true),
  setExpectedAttachType: (object) => object.setExpectedAttachType('first_tc', 1),
  setProgramFlags: (object) => object.setProgramFlags('first_tc', 0),
  load: (object) => object.load(),
  loadAsync: (object) => object.loadAsync(),
  maps: (object) => object.maps,
  programs: (object) => object.programs,
  mapLayout: (object) => object.mapLayout('table'),
  map: (object) => object.map('table'),
  program: (object) => object.program('first_tc'),
};
const linkCalls: Record<
  Exclude<keyof BpfLink, 'kind' | 'id' | 'cgroupId' | 'ifindex' | 'programId' | 'close'>,
  (link: BpfLink) => unknown
> = {
  update: (link) => link.update(undefined as never),
  pin: (link) => link.pin('/tmp/x'),
  detach: (link) => link.detach(),
};

function expectClosed<T>(handle: T, calls: Record<string, (handle: T) => unknown>): void {
  for (const [name, call] of Object.entries(calls)) {
    expect(
      caught(() => call(handle)),
      name,
    ).toMatchObject({ code: 'CLOSED', errno: 0 });
  }
}

describe.skipIf(missing !== undefined)('closed handles', () => {
  test('every method throws CLOSED, close() does not, facts stay', () => {
    const cgroup = makeCgroup();
    const object = loadFixture();
    const map = object.map('table');
    const program = object.program('allow_connect4');
    const link = program.attachCgroup(cgroup.path, 10);
    const events = object.map('events');
    const ring = openRingBuffer(events, () => {});
    const { id } = link;
    for (const handle of [
      ring,
      link,
      program,
      map,
      events,
      object,
      ring,
      link,
      program,
      map,
      object,
    ]) {
      handle.close();
    }
    expectClosed(map, mapCalls);
    expectClosed(program, programCalls);
    expectClosed(object, objectCalls);
    expectClosed(link, linkCalls);
    expect(map.info.name).toBe('table');
    expect(program).toMatchObject({
      name: 'allow_connect4',
      info: { tag: expect.stringMatching(/^[0-9a-f]{16}$/) },
    });
    expect(link).toMatchObject({ kind: 'cgroup', id });
    cgroup.release();
  });

  test('a handle closed by an option getter is seen as closed', () => {
    const object = loadFixture();
    const program = object.program('first_tc');
    const options = {
      get dataIn() {
        program.close();
        return frame();
      },
    };
    expect(caught(() => program.testRun(options)).code).toBe('CLOSED');
    object.close();
  });

  test('any exception of an option getter is passed on', () => {
    const object = loadFixture();
    const program = object.program('first_tc');
    const throwing = (value: unknown) => ({
      get repeat(): number {
        throw value;
      },
    });
    expect(caught(() => program.testRun(throwing(new Error('mine')))).message).toBe('mine');
    expect(caught(() => program.testRun(throwing(null)))).toBeNull();
    program.close();
    object.close();
  });

  test('methods refuse a foreign this, and handles cannot be constructed', () => {
    const object = loadFixture();
    const map = object.map('table');
    const program = object.program('first_tc');
    for (const foreign of [{}, program, object, null, 5, Object.create(map)]) {
      expect(caught(() => map.get.call(foreign as never, u32(1)))).toBeInstanceOf(TypeError);
      expect(caught(() => map.close.call(foreign as never))).toBeInstanceOf(TypeError);
    }
    for (const handle of [map, program, object]) {
      const Handle = handle.constructor as new () => unknown;
      expect(caught(() => new Handle()).code).toBe('ARGUMENT');
    }
    map.close();
    program.close();
    object.close();
  });
});
