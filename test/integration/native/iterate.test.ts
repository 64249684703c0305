// SPDX-License-Identifier: Apache-2.0
// Iterator programs, and sockets that are destroyed, also in other network namespaces.
import { createSocket, type Socket } from 'node:dgram';
import { closeSync, openSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { encodeDestroyRequests } from '../../../src/engines/bpf/stale-sockets/socket.ts';
import {
  type BpfObject,
  destroySockets,
  openObject,
  readIterator,
} from '../../../src/sys/native.ts';
import { mapIteratorRefusal } from '../../support/programs/map-iterators.ts';
import { addonPath } from './support/child.ts';
import { build, missing, u32 } from './support/fixture.ts';
import { collectLeft } from './support/garbage.ts';
import { descriptorCount, makeNetns, run, type TestResource } from './support/resources.ts';

const OWN = '/proc/self/ns/net';

const errorOf = async (call: () => Promise<unknown>): Promise<{ code: string; op: string }> => {
  try {
    await call();
  } catch (error) {
    const { code, op } = error as { code: string; op: string };
    return { code, op };
  }
  throw new Error('the call did not fail');
};

const numbers = (bytes: Uint8Array): number[] =>
  [...new Uint32Array(bytes.slice().buffer)].sort((a, b) => a - b);

const refusal = missing === undefined ? mapIteratorRefusal() : missing;

const overMaps = test.skipIf(refusal !== undefined);

describe.skipIf(missing !== undefined)('iterators', () => {
  let object: BpfObject;
  let netns: TestResource;
  let inside: number;

  beforeAll(() => {
    object = openObject(build('iterate'), { name: 'iterate' });
    object.setAutoload('keys', refusal === undefined);
    object.load();
    netns = makeNetns();
    inside = openSync(netns.path, 'r');
  });
  afterAll(() => {
    closeSync(inside);
    netns.release();
    object.close();
  });

  overMaps('over a map: every element, also of many', async () => {
    const table = object.map('table');
    const program = object.program('keys');
    expect(numbers((await readIterator(program, { map: table })).bytes)).toEqual([]);
    const all = Array.from({ length: 50_000 }, (_, n) => n);
    table.putBatch(u32(...all), u32(...all));
    const { bytes, isWhole } = await readIterator(program, { map: table });
    expect([numbers(bytes), isWhole]).toEqual([all, true]);
    const cut = await readIterator(program, { map: table, maxBytes: 4000 });
    expect(cut.isWhole).toBe(false);
    expect(cut.bytes.length).toBeGreaterThanOrEqual(4000);
    expect(cut.bytes.length).toBeLessThan(200_000);
    for (const handle of [table, program]) handle.close();
  });

  test('over the sockets of the namespace that it is given, and of its own', async () => {
    const program = object.program('ports');
    const socket = createSocket('udp4');
    await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
    const { port } = socket.address();
    expect(numbers((await readIterator(program)).bytes)).toContain(port);
    expect(numbers((await readIterator(program, { netns: inside })).bytes)).toEqual([]);
    // The thread that entered it was none of Node's.
    expect(numbers((await readIterator(program)).bytes)).toContain(port);
    socket.close();
    program.close();
  });

  overMaps('refused arguments and failures name the call', async () => {
    const program = object.program('keys');
    const table = object.map('table');
    expect(await errorOf(() => readIterator(program))).toMatchObject({ op: 'bpf_link_create' });
    expect(await errorOf(async () => readIterator(program, { netns: 1_000_000 }))).toMatchObject({
      code: 'ARGUMENT',
    });
    const folder = openSync('/', 'r');
    expect(await errorOf(() => readIterator(program, { map: table, netns: folder }))).toEqual({
      code: 'EINVAL',
      op: 'setns',
    });
    closeSync(folder);
    const tc = object.program('look');
    expect(await errorOf(() => readIterator(tc))).toMatchObject({ op: 'bpf_link_create' });
    expect(await errorOf(async () => readIterator({} as never))).toMatchObject({
      code: 'ARGUMENT',
    });
    program.close();
    expect(await errorOf(async () => readIterator(program))).toMatchObject({ code: 'CLOSED' });
    for (const handle of [table, tc]) handle.close();
  });

  overMaps('handles and descriptors may be closed meanwhile, and none is left', async () => {
    await collectLeft();
    const before = descriptorCount();
    const runs = Array.from({ length: 20 }, () => {
      const [program, table] = [object.program('keys'), object.map('table')];
      const own = openSync(OWN, 'r');
      const reading = readIterator(program, { map: table, netns: own });
      const destroying = destroySockets(new Uint8Array(), { netns: own });
      for (const handle of [program, table]) handle.close();
      closeSync(own);
      return Promise.all([reading, destroying]);
    });
    for (const [{ isWhole }, errors] of await Promise.all(runs)) {
      expect([isWhole, errors]).toEqual([true, []]);
    }
    expect(descriptorCount()).toBe(before);
  });
});

const mapped = (...last: number[]): Uint8Array =>
  Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ...last);
const LOOPBACK = mapped(127, 0, 0, 1);

/** A UDP socket that is connected to itself, and what becomes of it. */
async function connected(): Promise<{
  socket: Socket;
  request: Uint8Array;
  failed: Promise<string>;
}> {
  const socket = createSocket('udp4');
  const failed = new Promise<string>((resolve) => {
    socket.on('error', (error) => resolve('code' in error ? String(error.code) : ''));
  });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  const end = { address: LOOPBACK, port: socket.address().port };
  await new Promise<void>((resolve) => socket.connect(end.port, '127.0.0.1', () => resolve()));
  return { socket, failed, request: requestOf(end) };
}

const requestOf = (end: { address: Uint8Array; port: number }, cookie = 0n): Uint8Array =>
  encodeDestroyRequests([
    { cookie, device: 0, socketFamily: 'IPv4', protocol: 'UDP', local: end, backend: end },
  ]);

describe.skipIf(missing !== undefined)('destroySockets', () => {
  test('the socket fails with ECONNABORTED; others and unknown ones do not', async () => {
    const [one, two] = [await connected(), await connected()];
    const nobody = requestOf({ address: LOOPBACK, port: 1 });
    const requests = new Uint8Array([...nobody, ...one.request]);
    expect(await destroySockets(requests)).toEqual(['ENOENT', undefined]);
    expect(await one.failed).toBe('ECONNABORTED');
    expect(two.socket.remoteAddress().port).toBe(two.socket.address().port);
    for (const { socket } of [one, two]) socket.close();
  });

  test('not in another namespace, and not with another cookie', async () => {
    const { socket, request } = await connected();
    const netns = makeNetns();
    const inside = openSync(netns.path, 'r');
    expect(await destroySockets(request, { netns: inside })).toEqual(['ENOENT']);
    closeSync(inside);
    netns.release();
    const { port } = socket.address();
    const other = requestOf({ address: LOOPBACK, port }, 1n);
    expect((await destroySockets(other))[0]).toMatch(/^E(NOENT|STALE)$/);
    expect(socket.remoteAddress().port).toBe(port);
    socket.close();
  });

  test('refused arguments', async () => {
    expect(await errorOf(async () => destroySockets(new Uint8Array(55)))).toMatchObject({
      code: 'ARGUMENT',
    });
    expect(await errorOf(async () => destroySockets('text' as never))).toMatchObject({
      code: 'ARGUMENT',
    });
  });

  test('without CAP_SYS_ADMIN no namespace can be entered', () => {
    const code = `
      const fd = require('node:fs').openSync('${OWN}', 'r');
      require('${addonPath}')
        .destroySockets(new Uint8Array(), { netns: fd })
        .catch(({ code, op }) => console.log(code, op));`;
    // The sanitizer is for the addon: run() keeps it from setpriv.
    const sanitizer = `LD_PRELOAD=${process.env['LD_PRELOAD'] ?? ''}`;
    const argv = ['--bounding-set=-sys_admin', 'env', sanitizer, process.execPath, '-e', code];
    expect(run('setpriv', ...argv).trim()).toBe('EPERM setns');
  });
});
