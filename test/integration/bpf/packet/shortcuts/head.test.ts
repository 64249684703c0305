// SPDX-License-Identifier: Apache-2.0
// Headers that are rewritten by the program's own arithmetic come out as those that the kernel's helpers rewrite, which
// is how it is done where the kernel lets no program read its memory, or the offset of `ip_summed` is not known.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { kernelStructs } from '../../../../../src/sys/btf/structs.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { describeFrame } from '../../../../support/packets/describe.ts';
import { randomOf, SEED } from '../../../../support/random.ts';
import { PacketDrive } from '../support/packet-drive.ts';
import { names, publish } from '../support/stage.ts';

const PACKETS = 3_000;
const { client, vip, pod } = names('IPv4');
/** Of an Ethernet frame with an IPv4 header. */
const CHECKSUM_AT = { tcp: 50, udp: 40 } as const;

let drives: readonly PacketDrive[];
beforeAll(() => {
  expect(kernelStructs().ipSummedAt).toBeGreaterThan(0);
  // By a function of the kernel, by a helper, and not at all.
  const ways = [{}, { canCast: false }, { canReadKernel: false }];
  drives = ways.map((way) => {
    const drive = new PacketDrive({}, {}, way);
    for (const protocol of ['TCP', 'UDP'] as const) publish(drive, 'IPv4', { protocol });
    return drive;
  });
});
afterAll(() => {
  for (const drive of drives) drive.close();
});

/** In ones' complement 0 and 0xffff are the same, except that 0 in UDP says that there is no checksum. */
function normal(frame: Uint8Array, at: number): string {
  const bytes = Buffer.from(frame);
  if (bytes.readUInt16BE(at) === 0xffff) bytes.writeUInt16BE(0, at);
  return bytes.toString('hex');
}

test(`${PACKETS} packets each way (seed ${SEED})`, () => {
  const random = randomOf(SEED);
  for (let n = 0; n < PACKETS; n += 1) {
    const protocol = random() < 0.5 ? 'tcp' : 'udp';
    const at = CHECKSUM_AT[protocol];
    const port = 1024 + Math.floor(60_000 * random());
    const word = `${protocol === 'tcp' ? `tcp SYN seq=${Math.floor(2 ** 31 * random())}` : 'udp'} payload=${n % 90}`;
    const there = buildFrame(`${client(port)} > ${vip()} ${word}`);
    const back = buildFrame(`${pod(5)} > ${client(port)} ${word.replace('SYN', 'SYN ACK')}`);
    if (random() < 0.2)
      new DataView(there.buffer, there.byteOffset).setUint16(at, 65_536 * random());
    for (const [program, frame] of [
      ['fl_ingress', there],
      ['fl_egress', back],
    ] as const) {
      const [own, read, helpers] = drives.map((drive) => drive.run(program, frame));
      const written = [own, read, helpers].map((run) => normal(run!.frame, at));
      if (new Set(written).size > 1) {
        const frames = [frame, own!.frame, read!.frame, helpers!.frame];
        const shown = frames.map((bytes) => describeFrame(bytes));
        throw new Error(`${program}: ${shown.join('\n  ')}`);
      }
      expect(normal(own!.frame, at)).not.toBe(normal(frame, at));
    }
  }
});
