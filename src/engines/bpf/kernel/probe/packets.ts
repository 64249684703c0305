// SPDX-License-Identifier: Apache-2.0
// Programs on a device, the loopback device of a network namespace of its own: small ones as tcx links and as clsact
// filters, and those of this build as the agent attaches them.
import { LOOPBACK_IFINDEX, sendDatagram } from '../../../../sys/loopback.ts';
import * as native from '../../../../sys/native.ts';
import type { ProbeSandbox } from '../../../../sys/probe-sandbox.ts';
import { DIRECTIONS } from '../../devices/device-links.ts';
import { encodeU32 } from '../../layout/layout.ts';
import { createKernelLinks } from '../devices/kernel-links.ts';
import { attachLayer } from '../loader/attach.ts';
import { pinFolder } from '../loader/pins.ts';
import { packetPrograms } from '../packet/programs.ts';
import { banOfRealtime } from '../packet/refusal.ts';
import { loadSweep } from '../packet/sweeping.ts';
import { detaching } from './kernel.ts';
import { type LoadedParts, readObject, SMALL, withObject } from './objects.ts';

const PROBE = { name: 'probe.bpf.o', programs: ['probe_packet'] };
/** Nobody listens there; the datagram passes the device nevertheless. */
const DISCARD_PORT = 9;

/** Two links, the second before the first, and a datagram that both see. */
export async function orderTcx(sandbox: ProbeSandbox): Promise<void> {
  sandbox.network();
  const hasTcx = native.tcxPrograms(LOOPBACK_IFINDEX, 'ingress') !== undefined;
  if (!hasTcx) throw new Error('the kernel has no tcx links');
  await withObject(PROBE, (first) =>
    withObject(PROBE, async (second) => {
      const last = first
        .program('probe_packet')
        .attachTc(LOOPBACK_IFINDEX, 'ingress', { after: 0 });
      await detaching(last, async () => {
        const link = second
          .program('probe_packet')
          .attachTc(LOOPBACK_IFINDEX, 'ingress', { before: 0 });
        await detaching(link, async () => {
          const order = native.tcxPrograms(LOOPBACK_IFINDEX, 'ingress') ?? [];
          if (order[0]?.linkId !== link.id) throw new Error('the kernel keeps no order of links');
          await countPacket([first, second]);
        });
      });
    }),
  );
}

export async function filterByClsact(sandbox: ProbeSandbox): Promise<void> {
  sandbox.network();
  await withObject(PROBE, async (parts) => {
    const options = { priority: 1, handle: 1, forceClsact: true };
    const program = parts.program('probe_packet');
    await detaching(program.attachTc(LOOPBACK_IFINDEX, 'ingress', options), () =>
      countPacket([parts]),
    );
  });
}

async function countPacket(all: readonly LoadedParts[]): Promise<void> {
  await sendDatagram(DISCARD_PORT);
  for (const { map } of all) {
    const count = map('probe_count').get(encodeU32(0))?.[0] ?? 0;
    if (count === 0) throw new Error('a program on a device saw no packet');
  }
}

export function keepPacketsApart(): void {
  const ban = banOfRealtime();
  if (ban !== undefined) throw new Error(ban);
}

/** Those of this build, in both directions; the device still carries packets. */
export async function attachPackets(sandbox: ProbeSandbox): Promise<string> {
  sandbox.network();
  const bpfRoot = `${sandbox.bpfRoot()}-packets`;
  const layer = packetPrograms(readObject('packet.bpf.o'));
  const { programs, close } = await attachLayer({ layer, bpfRoot, sizes: SMALL });
  const device = { ifindex: LOOPBACK_IFINDEX, name: 'lo', isL3: false };
  const links = createKernelLinks({
    ...{ programs, order: 'outer' },
    folder: pinFolder(bpfRoot).links,
    links: () => [device],
  });
  try {
    for (const direction of DIRECTIONS) links.attach(device, direction);
    await sendDatagram(DISCARD_PORT);
    const insns = [...programs.values()].reduce((sum, { info }) => sum + info.verifiedInsns, 0);
    return `${programs.size} programs, ${insns} instructions verified`;
  } finally {
    for (const direction of DIRECTIONS) links.detach(device.ifindex, direction);
    close();
  }
}

/** One call over tables of its own. */
export async function sweepOnce(sandbox: ProbeSandbox): Promise<void> {
  const bpfRoot = `${sandbox.bpfRoot()}-sweep`;
  const object = readObject('sweep.bpf.o');
  const { sweep, close } = await loadSweep({ object, bpfRoot, sizes: SMALL });
  try {
    sweep.step();
  } finally {
    close();
  }
}
