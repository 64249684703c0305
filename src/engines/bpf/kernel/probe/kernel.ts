// SPDX-License-Identifier: Apache-2.0
// What the kernel's BPF has, tried by the small objects of bpf/probe. Each function throws if it does not work; a text
// that it returns says more than yes.
import { closeSync, openSync, readSync } from 'node:fs';
import { connectOnce, withServer } from '../../../../sys/loopback.ts';
import { type BpfLink, netnsCookie } from '../../../../sys/native.ts';
import type { ProbeSandbox } from '../../../../sys/probe-sandbox.ts';
import { codeOf } from '../../errors.ts';
import { encodeU32 } from '../../layout/layout.ts';
import { withObject } from './objects.ts';

const PROBE = 'probe.bpf.o';
const ZERO = encodeU32(0);
const BTF_PATH = '/sys/kernel/btf/vmlinux';
const BTF_MAGIC = 0xeb9f;

/** The map that every kernel with BPF makes. */
export const useBpf = (): Promise<void> =>
  withObject({ name: 'hash.bpf.o', programs: [] }, ({ map }) => {
    map('probe_hash').put(ZERO, ZERO);
  });

/** The type information of the kernel itself. */
export function readKernelTypes(): void {
  const file = openSync(BTF_PATH, 'r');
  try {
    const head = new Uint8Array(2);
    readSync(file, head);
    if (new DataView(head.buffer).getUint16(0, true) !== BTF_MAGIC) {
      throw new Error(`${BTF_PATH} is no BTF`);
    }
  } finally {
    closeSync(file);
  }
}

export const useBatches = (): Promise<void> =>
  withObject({ name: 'hash.bpf.o', programs: [] }, ({ map }) => {
    const hash = map('probe_hash');
    const keys = Uint8Array.of(...encodeU32(1), ...encodeU32(2));
    const written = hash.putBatch(keys, keys);
    if (written.error !== undefined) throw written.error;
    const { count } = hash.readBatch(8);
    if (count !== 2) throw new Error(`a batch of 2 entries reads as ${count}`);
    const deleted = hash.deleteBatch(keys);
    if (deleted.error !== undefined) throw deleted.error;
  });

export const mapArray = (): Promise<void> =>
  withObject({ name: PROBE, programs: [] }, ({ map }) => {
    const array = map('probe_count');
    const memory = array.mmap();
    new DataView(memory).setUint32(0, 7, true);
    const read = array.get(ZERO)?.[0];
    array.munmap(memory);
    if (read !== 7) throw new Error('what is written to the memory is not in the map');
  });

export const makeStorage = (): Promise<void> =>
  withObject({ name: 'storage.bpf.o', programs: [] }, ({ map }) => {
    map('probe_storage');
  });

export const makeRing = (): Promise<void> =>
  withObject({ name: 'ring.bpf.o', programs: [] }, ({ map }) => {
    map('probe_ring');
  });

export const callForEach = (): Promise<void> =>
  withObject({ name: PROBE, programs: ['probe_each'] }, ({ program }) => {
    const { retval } = program('probe_each').testRun({});
    if (retval !== 1) throw new Error(`it met ${retval} elements of an array of 1`);
  });

export const runLoop = (): Promise<void> =>
  withObject({ name: PROBE, programs: ['probe_loop'] }, ({ program }) => {
    const { retval } = program('probe_loop').testRun({ dataIn: new Uint8Array(64) });
    if (retval !== 3) throw new Error(`a loop of 3 rounds had ${retval}`);
  });

/** A link is made, its program replaced, and a connect() counted. */
export async function linkToCgroup(sandbox: ProbeSandbox): Promise<void> {
  const cgroup = sandbox.cgroup();
  sandbox.network();
  await withObject({ name: PROBE, programs: ['probe_connect'] }, async ({ map, program }) => {
    const link = program('probe_connect').attachCgroup(cgroup);
    await detaching(link, async () => {
      link.update(program('probe_connect'));
      await withServer('127.0.0.1', (port) => connectOnce('127.0.0.1', port));
      const count = map('probe_count').get(ZERO)?.[0];
      if (count !== 1) throw new Error(`the hook of a cgroup saw ${count} of 1 connect()`);
    });
  });
}

/** The port is open: only the program can refuse it. */
export function readNetnsCookie(): void {
  if (netnsCookie() === undefined) throw new Error('getsockopt(SO_NETNS_COOKIE) is refused');
}

export async function refuseByRetval(sandbox: ProbeSandbox): Promise<void> {
  const cgroup = sandbox.cgroup();
  sandbox.network();
  await withObject({ name: PROBE, programs: ['probe_refuse'] }, async ({ program }) => {
    await detaching(program('probe_refuse').attachCgroup(cgroup), async () => {
      const code = await withServer('127.0.0.1', (port) =>
        connectOnce('127.0.0.1', port).then(() => 'success', codeOf),
      );
      if (code !== 'ECONNREFUSED') throw new Error(`connect() ended with ${code}`);
    });
  });
}

export async function detaching(link: BpfLink, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } finally {
    link.detach();
    link.close();
  }
}
