// SPDX-License-Identifier: Apache-2.0
// Two clients with one port, whose first packets leave for one backend at the same moment on two CPUs: they never get one SNAT
// port.
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { buildFrame } from '../../support/packets/build.ts';
import { describeFrame } from '../../support/packets/describe.ts';
import { makeBpffs, type TestResource } from '../native/support/resources.ts';
import { meet } from './packet/support/meet.mjs';
import { PacketDrive } from './packet/support/packet-drive.ts';
import { names, PLACES, publish } from './packet/support/stage.ts';
import { onOneCpu } from './support/one-cpu.ts';

const addon = fileURLToPath(new URL('../../../build/native/fairlead.node', import.meta.url));
/** Each with another port of the clients. With nothing that guards both tables most of them give one SNAT port to two flows. */
const ROUNDS = 2_000;
/** Where other work has the CPUs each takes milliseconds, and fewer are played. */
const RACE_MS = 20_000;
const FIRST_PORT = 10_000;

const otherCpu = onOneCpu();
let bpffs: TestResource;
let drive: PacketDrive;
beforeEach(() => {
  bpffs = makeBpffs();
  const settings = { snatPorts: { first: 20_000, last: 65_535 } };
  drive = new PacketDrive(settings);
});
afterEach(() => {
  drive.close();
  bpffs.release();
});

describe.skipIf(otherCpu === undefined).each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { vip } = names(family);
  const { port } = PLACES[family];
  const clients =
    family === 'IPv4'
      ? (['198.51.100.1', '198.51.100.2'] as const)
      : (['2001:db8::1', '2001:db8::2'] as const);

  /** The first packets of a client, as they came in. */
  const began = (client: string): readonly Uint8Array[] =>
    Array.from({ length: ROUNDS }, (_, n) => {
      const line = `${port(client, FIRST_PORT + n)} > ${vip()} tcp SYN`;
      return drive.run('fl_ingress', buildFrame(line)).frame;
    });

  /** The packets of each, as they left. */
  async function race(mine: readonly Uint8Array[], others: readonly Uint8Array[]) {
    const pin = join(bpffs.path, 'egress');
    const program = drive.object.program('fl_egress');
    program.pin(pin);
    const control = new SharedArrayBuffer(8);
    const shared = new Int32Array(control);
    Atomics.store(shared, 1, ROUNDS);
    const worker = new Worker(new URL('./packet/support/race-worker.mjs', import.meta.url), {
      workerData: { addon, pin, frames: others, control, cpu: otherCpu },
    });
    await once(worker, 'message');
    const posted = once(worker, 'message');
    const until = performance.now() + RACE_MS;
    const left: Uint8Array[] = [];
    while (left.length < ROUNDS && performance.now() < until) {
      meet(shared, left.length);
      left.push(program.testRun({ dataIn: mine[left.length]! }).dataOut);
    }
    Atomics.store(shared, 1, left.length);
    meet(shared, left.length);
    program.close();
    const [right] = (await posted) as [readonly Uint8Array[]];
    return [left, right] as const;
  }

  test('two flows have two SNAT ports', async () => {
    publish(drive, family, { rule: { masquerade: true } });
    const others = began(clients[1]);
    const [left, right] = await race(began(clients[0]), others);
    const sources = [...left, ...right].map((frame) => describeFrame(frame).split(' > ')[0] ?? '');
    const own = sources.filter((source) => Number(/:(\d+)$/.exec(source)?.[1]) < 20_000).length;
    process.stdout.write(
      `${family}: ${left.length} rounds, ${own} flows with the port of their client\n`,
    );
    expect(left.length).toBeGreaterThan(0);
    expect(right).toHaveLength(left.length);
    expect(sources.length - new Set(sources).size, 'ports of two flows').toBe(0);
    expect(drive.reasons()).toEqual({});
  });
});
