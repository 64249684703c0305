// SPDX-License-Identifier: Apache-2.0
// Nothing leaks: as many descriptors after as before, for closed and for unreferenced handles, in workers that
// exit or are terminated, and in a process that exits with everything open.
import { readdirSync, readFileSync, unlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { describe, expect, test } from 'vitest';
import {
  openObject,
  openPinnedMap,
  openRingBuffer,
  waitGracePeriod,
} from '../../../src/sys/native.ts';
import { until } from '../../support/until.ts';
import { addonPath, type ChildBody, endOfChild } from './support/child.ts';
import { frame, loadFixture, missing, refusedBytes, u32, u64 } from './support/fixture.ts';
import { collectLeft, collectUntil } from './support/garbage.ts';
import { descriptorCount, makeBpffs, makeCgroup } from './support/resources.ts';

const fixture = fileURLToPath(new URL('../../../build/test/fixture.bpf.o', import.meta.url));

function mappingCount(): number {
  return readFileSync('/proc/self/maps', 'utf8').match(/bpf-map/g)?.length ?? 0;
}

// Everything a process can hold open, in a worker or a child.
const openEverything: ChildBody<{ fixture: string; cgroup: string; ending: string }, unknown> = (
  native,
  { fixture, cgroup, ending },
  require,
) => {
  const object = native.openObject(require('node:fs').readFileSync(fixture));
  object.setAutoload('either_connect', false);
  object.load();
  const events = object.map('events');
  const emit = object.program('emit');
  let count = 0;
  const ring = native.openRingBuffer(events, () => {
    count += 1;
    if (count < 10) return;
    if (ending === 'exit') process.exit(7);
    if (ending === 'throw') throw new Error('on purpose');
    if (ending !== 'close') return;
    ring.close();
    netlink.close();
    relay.close();
  });
  const memory = object.map('shared').mmap();
  const link = object.program('allow_connect4').attachCgroup(cgroup, 10);
  void native.waitGracePeriod();
  // Groups of addresses: nothing arrives by itself.
  const netlink = native.openNetlink({ protocol: 0, groups: 0x110 }, () => {});
  const relay = native.openRelay({}, () => {});
  relay.listen(Uint8Array.of(127, 0, 0, 1), 0);
  const dataIn = new Uint8Array(64);
  emit.testRun({ dataIn, repeat: 2_000 });
  const held = [object, events, emit, ring, memory, link, netlink, relay];
  Object.assign(globalThis, { held });
  return 'open';
};

describe.skipIf(missing !== undefined)('life cycle', () => {
  test('a thousand open and close cycles leave no descriptor and no mapping', async () => {
    await waitGracePeriod();
    const object = loadFixture();
    const before = [descriptorCount(), mappingCount()];
    for (let cycle = 0; cycle < 1_000; cycle++) {
      const shared = object.map('shared');
      new Uint8Array(shared.mmap())[0] = 1;
      const program = object.program('first_tc');
      const table = object.map('table');
      table.put(u32(1), u64(1n));
      for (const handle of [shared, program, table]) handle.close();
    }
    for (let cycle = 0; cycle < 50; cycle++) {
      const events = object.map('events');
      openRingBuffer(events, () => {}).close();
      events.close();
      openObject(refusedBytes).close();
    }
    expect([descriptorCount(), mappingCount()]).toEqual(before);
    object.close();
  });

  test('successful and failed loads and pins leave no descriptor', () => {
    const bpffs = makeBpffs();
    const cgroup = makeCgroup();
    const before = descriptorCount();
    for (let cycle = 0; cycle < 20; cycle++) {
      const refused = openObject(refusedBytes);
      expect(() => refused.load()).toThrow();
      refused.close();
      const object = loadFixture((fresh) => fresh.reusePin('table', `${bpffs.path}/table`));
      const map = object.map('table');
      const program = object.program('allow_connect4');
      const link = program.attachCgroup(cgroup.path, 10);
      if (cycle === 0) map.pin(`${bpffs.path}/table`);
      const again = openPinnedMap(`${bpffs.path}/table`);
      for (const handle of [again, link, program, map, object]) handle.close();
    }
    expect(descriptorCount()).toBe(before);
    // Some kernels put maps.debug and progs.debug into each bpf file system.
    expect(readdirSync(bpffs.path).filter((name) => !name.endsWith('.debug'))).toEqual(['table']);
    unlinkSync(`${bpffs.path}/table`);
    cgroup.release();
    bpffs.release();
  });

  test('unreferenced handles close when they are collected', async () => {
    await collectLeft();
    const object = loadFixture();
    const before = [descriptorCount(), mappingCount()];
    (() => {
      for (let i = 0; i < 100; i++) {
        object.map('shared').mmap();
        object.program('first_tc');
      }
    })();
    expect(descriptorCount()).toBeGreaterThan(before[0]! + 100);
    await collectUntil(() => descriptorCount() === before[0] && mappingCount() === before[1]);
    object.close();
  });

  test('an open ring without references still delivers', async () => {
    const object = loadFixture();
    let count = 0;
    let close = () => {};
    (() => {
      const ring = openRingBuffer(object.map('events'), () => {
        count += 1;
      });
      const weak = new WeakRef(ring);
      close = () => weak.deref()?.close();
    })();
    await collectLeft();
    object.program('emit').testRun({ dataIn: frame(), repeat: 3 });
    await until(() => count === 3, 'three records');
    close();
    object.close();
  });

  const inWorker = `
    const { parentPort, workerData } = require('node:worker_threads');
    const native = require(workerData.addon);
    const result = eval('(' + workerData.body + ')')(native, workerData.input, require);
    parentPort.postMessage(result);
  `;
  const startWorker = (cgroup: string, ending: string) =>
    new Worker(inWorker, {
      eval: true,
      workerData: {
        addon: addonPath,
        body: openEverything.toString(),
        input: { fixture, cgroup, ending },
      },
    });

  test.each([
    { ending: 'exit', end: 'ends itself in the middle' },
    { ending: 'terminate', end: 'is terminated while records flow' },
    { ending: 'close', end: 'closes its ring and ends' },
  ])('a worker with everything open that $end leaves nothing', async ({ ending }) => {
    const cgroup = makeCgroup();
    await collectLeft();
    // The first worker leaves permanent descriptors of the platform; so the second one is counted.
    let before = 0;
    for (let round = 0; round < 3; round++) {
      const worker = startWorker(cgroup.path, ending);
      await new Promise<void>((resolve, reject) => {
        worker.on('error', reject);
        worker.once('message', () => {
          if (ending === 'terminate') void worker.terminate();
        });
        worker.once('exit', () => resolve());
      });
      if (round === 0) before = descriptorCount();
    }
    await until(
      () => descriptorCount() === before && mappingCount() === 0,
      'every descriptor and mapping to be gone',
    );
    cgroup.release();
  });

  test.each([
    { ending: 'exit', code: 7 },
    { ending: 'close', code: 0 },
    { ending: 'throw', code: 1 },
  ])(
    'a process with everything open that ends by $ending exits with $code',
    async ({ ending, code }) => {
      const cgroup = makeCgroup();
      const end = await endOfChild(openEverything, { fixture, cgroup: cgroup.path, ending });
      cgroup.release();
      expect(end.stderr).not.toMatch(/Sanitizer|runtime error|FATAL/);
      expect(end).toMatchObject({ code, signal: null });
      if (ending === 'throw') expect(end.stderr).toContain('on purpose');
    },
  );

  test('a process that closed everything has leaked no memory (checked by the sanitizer build)', async () => {
    const cgroup = makeCgroup();
    const end = await endOfChild(
      async (native, { files, cgroup }, require) => {
        const [fixture, refused] = files.map((file) => require('node:fs').readFileSync(file));
        const tryTo = (call: () => unknown) => {
          try {
            call();
          } catch {}
        };
        for (let round = 0; round < 5; round++) {
          tryTo(() => native.openObject(new Uint8Array(9)));
          const bad = native.openObject(refused);
          tryTo(() => bad.load());
          bad.close();
          native.readBtf(fixture);
          const object = native.openObject(fixture);
          object.setAutoload('either_connect', false);
          object.load();
          const shared = object.map('shared');
          shared.mmap();
          shared.readAll();
          const program = object.program('allow_connect4');
          const link = program.attachCgroup(cgroup, 10);
          const emit = object.program('emit');
          const events = object.map('events');
          await new Promise<void>((resolve) => {
            const ring = native.openRingBuffer(events, () => {
              ring.close();
              resolve();
            });
            emit.testRun({ dataIn: new Uint8Array(64), repeat: 20 });
          });
          await native.waitGracePeriod();
          for (const handle of [shared, link, program, emit, events, object]) handle.close();
        }
        return 'closed';
      },
      { files: [fixture, fixture.replace('fixture.bpf', 'refused.bpf')], cgroup: cgroup.path },
      undefined,
      { ASAN_OPTIONS: 'detect_leaks=1' },
    );
    cgroup.release();
    expect(end.stderr).toBe('');
    expect(end).toMatchObject({ code: 0, stdout: '{"value":"closed"}\n' });
  });
});
