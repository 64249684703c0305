// SPDX-License-Identifier: Apache-2.0
// Links: cgroup, tcx, clsact and XDP; update in place, pins, detach. Uses its own network namespaces, entered by a
// child process, and its own cgroup.
import { unlinkSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type BpfObject,
  cgroupPrograms,
  openPinnedLink,
  openPinnedProgram,
  programName,
} from '../../../src/sys/native.ts';
import { until } from '../../support/until.ts';
import { type ChildBody, inChild } from './support/child.ts';
import { caught } from './support/errors.ts';
import { loadFixture, missing, readU64, u32 } from './support/fixture.ts';
import { makeBpffs, makeCgroup, makeNetns, run, type TestResource } from './support/resources.ts';

const connect4 = 10;
const fixturePath = fileURLToPath(new URL('../../../build/test/fixture.bpf.o', import.meta.url));

describe.skipIf(missing !== undefined)('cgroup links', () => {
  let object: BpfObject;
  let bpffs: TestResource;
  let cgroup: TestResource;
  let server: Server;
  let port = 0;

  beforeAll(async () => {
    bpffs = makeBpffs();
    cgroup = makeCgroup();
    object = loadFixture();
    server = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    port = typeof address === 'object' && address !== null ? address.port : 0;
  });
  afterAll(() => {
    server?.close();
    object?.close();
    cgroup?.release();
    bpffs?.release();
  });

  /** True if a process inside our cgroup can connect. */
  async function canConnect(): Promise<boolean> {
    return await inChild(
      async (_native, { path, port }, require) => {
        require('node:fs').writeFileSync(`${path}/cgroup.procs`, String(process.pid));
        const socket = require('node:net').connect(port, '127.0.0.1');
        return await new Promise<boolean>((resolve) => {
          socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
        }).finally(() => socket.destroy());
      },
      { path: cgroup.path, port },
    );
  }

  const calls = (index: number): bigint => {
    const map = object.map('plain');
    const value = readU64(map.get(u32(index)) ?? new Uint8Array(8));
    map.close();
    return value;
  };

  test('a program attached to a cgroup decides, is replaced in place and detached', async () => {
    const refuse = object.program('refuse_connect4');
    const allow = object.program('allow_connect4');
    // The type is that of its section.
    const link = refuse.attachCgroup(cgroup.path);
    expect(link.kind).toBe('cgroup');
    expect(link.id).toBeGreaterThan(0);
    expect(await canConnect()).toBe(false);
    link.update(allow);
    const before = calls(0);
    expect(await canConnect()).toBe(true);
    expect(calls(0)).toBe(before);
    expect(calls(1)).toBeGreaterThan(0n);
    link.update(refuse);
    expect(await canConnect()).toBe(false);
    link.detach();
    expect(await canConnect()).toBe(true);
    link.detach();
    link.close();
    refuse.close();
    allow.close();
  });

  test('the programs of a cgroup are listed by type, each by its name', () => {
    const link = object.program('allow_connect4').attachCgroup(cgroup.path, connect4);
    const { id: programId } = object.program('allow_connect4').info;
    const listed = { programId, linkId: 0, name: 'allow_connect4' };
    expect(cgroupPrograms(cgroup.path, connect4)).toEqual([listed]);
    expect(cgroupPrograms(cgroup.path, connect4 + 1)).toEqual([]);
    expect(programName(programId)).toBe('allow_connect4');
    link.close();
    expect(cgroupPrograms(cgroup.path, connect4)).toEqual([]);
    // No such attach type, cgroup or program.
    expect(cgroupPrograms(cgroup.path, 9_999)).toBeUndefined();
    expect(caught(() => cgroupPrograms('/nowhere', connect4)).code).toBe('ENOENT');
    expect(programName(4_000_000_000)).toBe('');
  });

  test('closing the only handle detaches; a pin keeps the attachment', async () => {
    const path = `${bpffs.path}/link`;
    const refuse = object.program('refuse_connect4');
    const link = refuse.attachCgroup(cgroup.path, connect4);
    link.pin(path);
    expect(caught(() => link.pin(path)).code).toBe('EEXIST');
    const id = link.id;
    link.close();
    expect(await canConnect()).toBe(false);
    const again = openPinnedLink(path);
    expect(again).toMatchObject({ kind: 'cgroup', id });
    again.close();
    unlinkSync(path);
    // The kernel frees the link of a pin that is removed a moment later.
    await until(canConnect, 'the end of the attachment');
    const unpinned = refuse.attachCgroup(cgroup.path, connect4);
    expect(await canConnect()).toBe(false);
    unpinned.close();
    expect(await canConnect()).toBe(true);
    refuse.close();
  });

  test('detaching ends a pinned attachment too', async () => {
    const path = `${bpffs.path}/detached`;
    const refuse = object.program('refuse_connect4');
    const link = refuse.attachCgroup(cgroup.path, connect4);
    link.pin(path);
    link.detach();
    expect(await canConnect()).toBe(true);
    link.close();
    unlinkSync(path);
    refuse.close();
  });

  test('a link outlives its cgroup without harm', () => {
    const other = makeCgroup();
    const allow = object.program('allow_connect4');
    const link = allow.attachCgroup(other.path, connect4);
    other.release();
    link.detach();
    link.close();
    allow.close();
  });

  test('an error of attaching says why', () => {
    const allow = object.program('allow_connect4');
    const tc = object.program('first_tc');
    expect(caught(() => allow.attachCgroup('/none', connect4))).toMatchObject({
      code: 'ENOENT',
      op: 'open',
    });
    expect(caught(() => allow.attachCgroup('/etc/passwd', connect4)).code).toBe('ENOTDIR');
    expect(caught(() => allow.attachCgroup('/tmp', connect4)).code).toBe('ARGUMENT');
    expect(caught(() => allow.attachCgroup(cgroup.path, 11))).toMatchObject({
      code: 'EINVAL',
      op: 'bpf_link_create',
    });
    expect(caught(() => tc.attachCgroup(cgroup.path, connect4))).toMatchObject({ code: 'EINVAL' });
    allow.pin(`${bpffs.path}/allow`);
    const pinned = openPinnedProgram(`${bpffs.path}/allow`);
    expect(caught(() => pinned.attachCgroup(cgroup.path)).message).toContain('does not say which');
    pinned.close();
    unlinkSync(`${bpffs.path}/allow`);
    for (const call of [
      () => allow.attachCgroup('', connect4),
      () => allow.attachCgroup(cgroup.path, -1),
      () => tc.attachTc(0, 'ingress'),
      () => tc.attachTc(1, 'sideways' as never),
      () => tc.attachTc(1, 'ingress', { priority: 0 }),
      () => tc.attachTc(1, 'ingress', { priority: 65_536 }),
      () => tc.attachTc(1, 'ingress', { handle: 0 }),
      () => tc.attachTc(1, 'ingress', { forceClsact: 1 as never }),
      () => tc.attachTc(1, 'ingress', 5 as never),
      () => tc.attachTc(1, 'ingress', { before: -1 }),
      () => tc.attachTc(1, 'ingress', { before: 0, after: 0 }),
      () => tc.attachXdp(0),
      () => tc.attachXdp(1, { mode: 'fast' as never }),
    ]) {
      expect(caught(call), call.toString()).toMatchObject({ code: 'ARGUMENT' });
    }
    const link = allow.attachCgroup(cgroup.path, connect4);
    expect(caught(() => link.update(tc)).code).toBe('EINVAL');
    expect(caught(() => link.update({} as never)).code).toBe('ARGUMENT');
    expect(caught(() => link.update(link as never)).code).toBe('ARGUMENT');
    tc.close();
    expect(caught(() => link.update(tc)).code).toBe('CLOSED');
    link.close();
    allow.close();
  });

  test('a pin that is not a link is rejected', () => {
    const path = `${bpffs.path}/map`;
    const map = object.map('table');
    map.pin(path);
    expect(caught(() => openPinnedLink(path)).code).toBe('ARGUMENT');
    map.close();
    unlinkSync(path);
    expect(caught(() => openPinnedLink(path)).code).toBe('ENOENT');
  });
});

interface Wanted {
  readonly fixture: string;
  readonly attach: 'tcx' | 'clsact' | 'xdp';
  readonly direction: 'ingress' | 'egress';
  readonly pin: string;
}

// Runs inside the namespace. v1 is where packets of `ping` arrive, v0 where they leave.
const exercise: ChildBody<Wanted, Record<string, unknown>> = (native, wanted, require) => {
  const { execFileSync, spawnSync } = require('node:child_process');
  const { readFileSync, unlinkSync } = require('node:fs');
  const object = native.openObject(readFileSync(wanted.fixture));
  object.setAutoload('either_connect', false);
  object.setRodata('verdict', new Uint8Array([0, 0, 0, 0]));
  object.load();
  const names = wanted.attach === 'xdp' ? ['first_xdp', 'second_xdp'] : ['first_tc', 'second_tc'];
  const [first, second] = names.map((name: string) => object.program(name));
  const base = wanted.attach === 'xdp' ? 2 : 0;
  const plain = object.map('plain');
  const count = (index: number) =>
    Number(
      new DataView(
        plain.get(new Uint8Array(new Uint32Array([base + index]).buffer))!.buffer,
      ).getBigUint64(0, true),
    );
  const device = wanted.direction === 'ingress' ? 'v1' : 'v0';
  const env = { ...process.env };
  delete env['LD_PRELOAD'];
  const ifindex = JSON.parse(String(execFileSync('ip', ['-j', 'link', 'show', device], { env })))[0]
    .ifindex;
  const send = () => spawnSync('ping', ['-c', '1', '-W', '0.1', '192.0.2.2'], { env });
  const attach = () =>
    wanted.attach === 'xdp'
      ? first!.attachXdp(ifindex, { mode: 'generic' })
      : first!.attachTc(ifindex, wanted.direction, { forceClsact: wanted.attach === 'clsact' });
  const filters = () =>
    (
      String(
        execFileSync('tc', ['filter', 'show', 'dev', device, wanted.direction], { env }),
      ).match(/ handle 0xfa1 /g) ?? []
    ).length;
  const code = (call: () => unknown) => {
    try {
      call();
      return 'fine';
    } catch (error) {
      return (error as { code: string }).code;
    }
  };
  const link = attach();
  send();
  const afterFirst = [count(0) > 0, count(1) > 0];
  link.update(second!);
  const held = count(0);
  send();
  const afterUpdate = [count(0) === held, count(1) > 0];
  const filtersOnce = filters();
  const again = wanted.attach === 'clsact' ? attach() : undefined;
  const filtersTwice = filters();
  const pinned = code(() => link.pin(wanted.pin));
  if (pinned === 'fine') unlinkSync(wanted.pin);
  const facts = { kind: link.kind, hasId: link.id > 0 };
  link.detach();
  const detachedTwice = code(() => link.detach());
  const before = count(0) + count(1);
  send();
  const afterDetach = count(0) + count(1) === before;
  const filtersLast = filters();
  again?.close();
  link.close();
  const missingDevice = code(() =>
    wanted.attach === 'xdp'
      ? first!.attachXdp(9999)
      : first!.attachTc(9999, wanted.direction, { forceClsact: wanted.attach === 'clsact' }),
  );
  const last = attach();
  execFileSync('ip', ['link', 'del', 'v0'], { env });
  const deviceGone = code(() => last.detach());
  return {
    facts,
    afterFirst,
    afterUpdate,
    pinned,
    detachedTwice,
    afterDetach,
    filtersOnce,
    filtersTwice,
    filtersLast,
    missingDevice,
    deviceGone,
  };
};

function indexOf(netns: TestResource, device: string): number {
  const name = netns.path.split('/').at(-1) ?? '';
  const links = JSON.parse(run('ip', '-n', name, '-j', 'link', 'show', device)) as {
    ifindex: number;
  }[];
  return links[0]?.ifindex ?? 0;
}

describe.skipIf(missing !== undefined)('interface links', () => {
  let bpffs: TestResource;
  beforeAll(() => {
    bpffs = makeBpffs();
  });
  afterAll(() => bpffs?.release());

  const rows = [
    { attach: 'tcx', direction: 'ingress' },
    { attach: 'tcx', direction: 'egress' },
    { attach: 'clsact', direction: 'ingress' },
    { attach: 'clsact', direction: 'egress' },
    { attach: 'xdp', direction: 'ingress' },
  ] as const;
  test.each(rows)(
    '$attach at $direction sees packets, is replaced in place and detached',
    async (row) => {
      const netns = makeNetns();
      try {
        const pin = `${bpffs.path}/${row.attach}-${row.direction}`;
        const seen = await inChild(exercise, { ...row, fixture: fixturePath, pin }, netns.path);
        const isClsact = row.attach === 'clsact';
        const filters = isClsact ? 1 : 0;
        expect(seen).toEqual({
          facts: { kind: row.attach, hasId: !isClsact },
          afterFirst: [true, false],
          afterUpdate: [true, true],
          pinned: isClsact ? 'ENOTSUP' : 'fine',
          detachedTwice: 'fine',
          afterDetach: true,
          filtersOnce: filters,
          filtersTwice: filters,
          filtersLast: 0,
          // These errors come from the kernel.
          missingDevice: row.attach === 'xdp' ? 'EINVAL' : 'ENODEV',
          deviceGone: 'fine',
        });
      } finally {
        netns.release();
      }
    },
  );

  test('native XDP works on a veth pair', async () => {
    const netns = makeNetns();
    try {
      const kind = await inChild(
        (native, { fixture, ifindex }, require) => {
          const { readFileSync } = require('node:fs');
          const object = native.openObject(readFileSync(fixture));
          object.setAutoload('either_connect', false);
          object.load();
          const link = object.program('first_xdp').attachXdp(ifindex, { mode: 'native' });
          link.detach();
          return link.kind;
        },
        { fixture: fixturePath, ifindex: indexOf(netns, 'v1') },
        netns.path,
      );
      expect(kind).toBe('xdp');
    } finally {
      netns.release();
    }
  });

  test('tcx programs are attached before or after one program, by its id, or all of them', async () => {
    const netns = makeNetns();
    try {
      const orders = await inChild(
        whoRunsFirst,
        { fixture: fixturePath, ifindex: indexOf(netns, 'v0') },
        netns.path,
      );
      expect(orders).toEqual({
        default: 'first',
        beforeAll: 'second',
        afterAll: 'first',
        beforeFirst: 'second',
        afterFirst: 'first',
        beforeAbsent: 'ENOENT',
      });
    } finally {
      netns.release();
    }
  });
});

/** Each program ends the chain, so the one whose counter grew is the first. */
function whoRunsFirst(
  native: typeof import('../../../native/index.d.ts'),
  { fixture, ifindex }: { readonly fixture: string; readonly ifindex: number },
  require: NodeJS.Require,
): Record<string, string> {
  const { spawnSync } = require('node:child_process');
  const object = native.openObject(require('node:fs').readFileSync(fixture));
  object.setAutoload('either_connect', false);
  object.setRodata('verdict', new Uint8Array(4));
  object.load();
  const [first, second] = [object.program('first_tc'), object.program('second_tc')];
  const plain = object.map('plain');
  const count = (index: number): number => plain.get(new Uint8Array([index, 0, 0, 0]))?.[0] ?? 0;
  const env = { ...process.env };
  delete env['LD_PRELOAD'];
  const orderOf = (options: { before?: number; after?: number } | undefined): string => {
    const link = first.attachTc(ifindex, 'egress');
    try {
      const other = second.attachTc(ifindex, 'egress', options);
      plain.put(new Uint8Array(4), new Uint8Array(plain.info.valueSize));
      spawnSync('ping', ['-c', '1', '-W', '0.1', '192.0.2.2'], { env });
      // Read while both stand: the interface also sends packets of its own, which then only the first would count.
      const isFirst = count(0) > 0;
      other.detach();
      return isFirst ? 'first' : 'second';
    } catch (error) {
      return (error as { code: string }).code;
    } finally {
      link.detach();
    }
  };
  const { id } = first.info;
  return {
    default: orderOf(undefined),
    beforeAll: orderOf({ before: 0 }),
    afterAll: orderOf({ after: 0 }),
    beforeFirst: orderOf({ before: id }),
    afterFirst: orderOf({ after: id }),
    beforeAbsent: orderOf({ before: object.program('emit').info.id }),
  };
}
