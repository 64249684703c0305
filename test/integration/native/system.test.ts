// SPDX-License-Identifier: Apache-2.0
// Test runs, BTF layouts, mounts and the facts of this machine.
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { describe, expect, test, vi } from 'vitest';
import {
  abstractListener,
  fileSystemType,
  libbpfVersion,
  lockExclusively,
  mountBpffs,
  netnsAddresses,
  netnsCookie,
  openPinnedProgram,
  possibleCpus,
  readBtf,
  unmount,
  waitGracePeriod,
} from '../../../src/sys/native.ts';
import { until } from '../../support/until.ts';
import { addonPath, inChild } from './support/child.ts';
import { caught } from './support/errors.ts';
import { fixtureBytes, frame, loadFixture, missing, u32 } from './support/fixture.ts';
import { makeBpffs, makeFolder, makeNetns } from './support/resources.ts';

describe('layouts', () => {
  const layouts = readBtf(fixtureBytes);

  test('a struct has names, offsets, sizes, bitfields and the members of anonymous unions', () => {
    expect(layouts.structs.find((layout) => layout.name === 'slot')).toEqual({
      name: 'slot',
      sizeBytes: 32,
      fields: [
        { name: 'count', offsetBytes: 0, sizeBytes: 8 },
        { name: 'extra', offsetBytes: 8, sizeBytes: 4 },
        { name: 'colour', offsetBytes: 12, sizeBytes: 4 },
        { name: 'odd', offsetBytes: 16, sizeBytes: 4 },
        { name: 'low', offsetBytes: 20, sizeBytes: 4, bitOffset: 160, bitWidth: 3 },
        { name: 'high', offsetBytes: 20, sizeBytes: 4, bitOffset: 163, bitWidth: 5 },
        { name: 'word', offsetBytes: 24, sizeBytes: 4 },
        { name: 'bytes', offsetBytes: 24, sizeBytes: 4 },
      ],
    });
  });

  test('enums have signed and 64-bit values', () => {
    const values = (name: string) => layouts.enums.find((entry) => entry.name === name)?.values;
    expect(values('colour')).toEqual({ RED: 1, GREEN: 2, BLUE: -3 });
    expect(values('big')).toEqual({ HUGE_VALUE: 0x100000000, SMALL_VALUE: 1 });
  });

  test('bytes without BTF are rejected', () => {
    expect(caught(() => readBtf(new Uint8Array(10))).op).toBe('bpf_object__open_mem');
    expect(caught(() => readBtf('text' as never)).code).toBe('ARGUMENT');
  });
});

describe.skipIf(missing !== undefined)('test runs', () => {
  const object = missing === undefined ? loadFixture() : undefined;
  const program = (name: string) => object!.program(name);

  test('a packet program returns its verdict, its packet, its context and a duration', () => {
    const dataIn = frame();
    const startedNs = process.hrtime.bigint();
    const ran = program('first_tc').testRun({
      dataIn,
      contextIn: new Uint8Array(192),
      repeat: 1_000,
    });
    expect(ran.retval).toBe(3);
    expect(ran.dataOut).toEqual(dataIn);
    expect(ran.contextOut.length).toBe(192);
    expect(new Uint32Array(ran.contextOut.buffer)[2]).toBe(3);
    // Of one of the runs.
    expect(1_000 * ran.durationNs).toBeLessThan(Number(process.hrtime.bigint() - startedNs));
    const counted = object!.map('plain').get(u32(0)) ?? new Uint8Array(8);
    expect(new BigUint64Array(counted.buffer)[0]).toBe(1_000n);
  });

  test('without an input context the result has none', () => {
    expect(program('first_xdp').testRun({ dataIn: frame() })).toMatchObject({
      retval: 2,
      contextOut: new Uint8Array(),
    });
  });

  test('an error of the kernel has its errno', () => {
    expect(caught(() => program('first_tc').testRun({}))).toMatchObject({
      code: 'EINVAL',
      op: 'bpf_prog_test_run_opts',
    });
    expect(
      caught(() => program('first_tc').testRun({ dataIn: frame(), dataOutSize: 4 })).code,
    ).toBe('ENOSPC');
    expect(caught(() => program('allow_connect4').testRun({ dataIn: frame() })).code).toBe(
      'ENOTSUPP',
    );
  });

  test('invalid arguments are rejected', () => {
    for (const options of [
      undefined,
      5,
      { dataIn: 'text' },
      { dataIn: frame(), contextIn: [1] },
      { dataIn: frame(), repeat: -1 },
      { dataIn: frame(), repeat: 2 ** 31 },
      { dataIn: frame(), dataOutSize: 2 ** 30 },
    ]) {
      expect(caught(() => program('first_tc').testRun(options as never)).code).toBe('ARGUMENT');
    }
  });

  test('a pinned program opens as the same program', () => {
    const bpffs = makeBpffs();
    const path = `${bpffs.path}/program`;
    const first = program('first_tc');
    first.pin(path);
    expect(caught(() => first.pin(path)).code).toBe('EEXIST');
    const again = openPinnedProgram(path);
    expect(again.name).toBe('first_tc');
    expect(again.info).toEqual(first.info);
    expect(again.info.verifiedInsns).toBeGreaterThan(5);
    expect(again.testRun({ dataIn: frame() }).retval).toBe(3);
    again.close();
    unlinkSync(path);
    object!.map('table').pin(path);
    expect(caught(() => openPinnedProgram(path)).code).toBe('ARGUMENT');
    unlinkSync(path);
    bpffs.release();
  });
});

describe.skipIf(missing !== undefined)('system', () => {
  test('mounts and unmounts a bpf file system', () => {
    const folder = makeFolder();
    const { path } = folder;
    expect(fileSystemType(path)).not.toBe(0xcafe4a11);
    mountBpffs(path);
    expect(fileSystemType(path)).toBe(0xcafe4a11);
    unmount(path);
    expect(fileSystemType(path)).not.toBe(0xcafe4a11);
    expect(caught(() => unmount(path))).toMatchObject({ code: 'EINVAL', op: 'umount2' });
    folder.release();
    expect(caught(() => mountBpffs(path))).toMatchObject({ code: 'ENOENT', op: 'mount' });
    expect(caught(() => fileSystemType(path))).toMatchObject({ code: 'ENOENT', op: 'statfs' });
    for (const call of [mountBpffs, unmount, fileSystemType]) {
      expect(caught(() => call(1 as never)).code).toBe('ARGUMENT');
    }
  });

  test('an exclusive lock of a folder holds until its descriptor is closed, on bpffs too', async () => {
    const bpffs = makeBpffs();
    const [first, second] = [openSync(bpffs.path, 'r'), openSync(bpffs.path, 'r')];
    expect(lockExclusively(first)).toBe(true);
    expect(lockExclusively(first)).toBe(true);
    expect(lockExclusively(second)).toBe(false);
    closeSync(first);
    expect(lockExclusively(second)).toBe(true);
    closeSync(second);
    expect(caught(() => lockExclusively(second))).toMatchObject({ code: 'EBADF', op: 'flock' });
    expect(caught(() => lockExclusively(-1)).code).toBe('ARGUMENT');
    bpffs.release();
  });

  test('who listens at an abstract socket is told without asking it', async () => {
    const name = `fairlead-native-${process.pid}`;
    expect(abstractListener(name)).toBeUndefined();
    const server = createServer();
    await new Promise<void>((done) => server.listen(`\0${name}`.padEnd(108, '\0'), done));
    expect(abstractListener(name)).toEqual({ pid: process.pid, uid: process.geteuid?.() });
    server.close();
    expect(abstractListener(name)).toBeUndefined();
    expect(caught(() => abstractListener('x'.repeat(108))).code).toBe('ARGUMENT');
    expect(caught(() => abstractListener('')).code).toBe('ARGUMENT');
  });

  test('possibleCpus returns the kernel’s number', () => {
    const text = readFileSync('/sys/devices/system/cpu/possible', 'utf8').trim();
    expect(possibleCpus()).toBe(Number(text.split('-').at(-1)) + 1);
  });

  test('each network namespace has its own cookie', async () => {
    const netns = makeNetns();
    const other = await inChild((native) => String(native.netnsCookie()), null, netns.path);
    netns.release();
    expect(netnsCookie()).toEqual(expect.any(BigInt));
    expect(netnsCookie()).toBe(netnsCookie());
    expect(other).not.toBe(String(netnsCookie()));
  });

  test('cookie and addresses of another network namespace, which this thread does not stay in', async () => {
    const own = { cookie: netnsCookie(), addresses: netnsAddresses() };
    const netns = makeNetns();
    const other = await inChild((native) => String(native.netnsCookie()), null, netns.path);
    const fd = openSync(netns.path, 'r');
    expect(String(netnsCookie({ netns: fd }))).toBe(other);
    expect(netnsAddresses({ netns: fd })).toContain('192.0.2.1');
    expect(netnsAddresses({ netns: fd })).not.toEqual(own.addresses);
    closeSync(fd);
    netns.release();
    expect({ cookie: netnsCookie(), addresses: netnsAddresses() }).toEqual(own);
    const folder = openSync('/', 'r');
    expect(caught(() => netnsCookie({ netns: folder }))).toMatchObject({ code: 'EINVAL' });
    closeSync(folder);
  });

  test('a program that is started after unshareNetwork() and unshareMounts() is in new namespaces', async () => {
    const seen = await inChild((native, _, require) => {
      const { execFileSync } = require('node:child_process');
      const { readlinkSync } = require('node:fs');
      const here = ['net', 'mnt'].map((one) => readlinkSync(`/proc/self/ns/${one}`));
      native.unshareNetwork();
      native.unshareMounts();
      native.mountBpffs('/mnt');
      const of = (...argv: [string, string[]]) => String(execFileSync(...argv)).trim();
      const there = ['net', 'mnt'].map((one) => of('readlink', [`/proc/self/ns/${one}`]));
      return { here, there, mounted: of('stat', ['-fc', '%T', '/mnt']) };
    }, null);
    expect(seen.there).not.toContain(seen.here[0]);
    expect(seen.there).not.toContain(seen.here[1]);
    expect(seen.mounted).toBe('bpf_fs');
    expect(fileSystemType('/mnt')).not.toBe(0xcafe4a11);
  });

  test('grace periods end, also many at once, while the event loop runs', async () => {
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 1);
    for (let round = 0; round < 5; round++) await waitGracePeriod();
    await Promise.all(Array.from({ length: 20 }, () => waitGracePeriod()));
    clearInterval(timer);
    expect(turns).toBeGreaterThan(0);
  });

  // Runs `linger` on a separate thread; the program records its progress in shared memory.
  const runLinger = `
    const { workerData } = require('node:worker_threads');
    const program = require(workerData.addon).openPinnedProgram(workerData.path);
    program.testRun({ dataIn: new Uint8Array(64) });
  `;

  test('a grace period does not end before a program that was already running', async () => {
    const bpffs = makeBpffs();
    const path = `${bpffs.path}/linger`;
    const object = loadFixture();
    object.program('linger').pin(path);
    const shared = object.map('shared');
    const words = new Uint32Array(shared.mmap());
    await waitGracePeriod();
    let attempts = 0;
    let wasRunning = false;
    // On a busy machine the program may have ended before we check: then repeat.
    while (!wasRunning && attempts < 20) {
      attempts += 1;
      words.fill(0);
      const worker = new Worker(runLinger, { eval: true, workerData: { addon: addonPath, path } });
      const ended = new Promise((resolve) => worker.once('exit', resolve));
      await until(() => words[0] === 1, 'the program to run');
      const passed = waitGracePeriod();
      wasRunning = words[1] === 0;
      await passed;
      expect(words[1]).toBe(1);
      await ended;
    }
    expect(wasRunning).toBe(true);
    unlinkSync(path);
    shared.close();
    object.close();
    bpffs.release();
  });

  test('the version of libbpf is known', () => {
    expect(libbpfVersion()).toMatch(/^\d+\.\d+$/);
  });
});

describe('an addon that does not load is reported in one line that says what to do', () => {
  async function loadingOf(file: string): Promise<string> {
    vi.resetModules();
    vi.stubEnv('FAIRLEAD_ADDON', file);
    const fresh = await import('../../../src/sys/native.ts');
    const error = caught(() => fresh.libbpfVersion());
    vi.unstubAllEnvs();
    return error.message;
  }

  test('a missing one, and only when it is needed', async () => {
    expect(await loadingOf('/none/fairlead.node')).toBe(
      "cannot load the addon /none/fairlead.node: Cannot find module '/none/fairlead.node'; run: npm run build:native",
    );
  });

  test('one of another processor', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'addon-'));
    const [machine, built] = process.arch === 'x64' ? [183, 'arm64'] : [62, 'x64'];
    const file = join(folder, 'fairlead.node');
    const bytes = readFileSync(process.execPath).subarray(0, 4096);
    bytes.writeUInt16LE(machine, 18);
    writeFileSync(file, bytes);
    expect(await loadingOf(file)).toBe(
      `cannot load the addon ${file}: it is built for ${built}, and this is ${process.arch}; use the image of this processor, or run: npm run build:native`,
    );
    rmSync(folder, { recursive: true });
  });
});

test('what the program no longer needs of itself is not resident, and it still works', async () => {
  const seen = await inChild((native, _, require) => {
    const { readFileSync } = require('node:fs');
    const resident = () =>
      Number(/^RssFile:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]);
    const before = resident();
    native.releaseProgram();
    return { before, after: resident(), sum: JSON.parse('[1, 2]').length };
  }, null);
  expect(seen.after).toBeLessThan(0.8 * seen.before);
  expect(seen.sum).toBe(2);
});
