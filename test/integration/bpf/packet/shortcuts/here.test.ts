// SPDX-License-Identifier: Apache-2.0
// Packets of known connections that are followed without calls come out, and are counted, as those that take the long
// way, which all packets take where the kernel lets no program read its memory.
import { afterEach, describe, expect, test } from 'vitest';
import { buildFrame } from '../../../../support/packets/build.ts';
import { describeFrame } from '../../../../support/packets/describe.ts';
import { randomOf, SEED } from '../../../../support/random.ts';
import { PacketDrive } from '../support/packet-drive.ts';
import { names, publish } from '../support/stage.ts';

const PACKETS = 1_500;
const CLIENTS = 40;
const { client, vip, pod, node } = names('IPv4');

let drives: readonly PacketDrive[] = [];
afterEach(() => {
  for (const drive of drives) drive.close();
});

/** @param buckets of the table of connections: with few, connections are not in their first bucket, and find others in their way */
function open(buckets: number, masquerade: boolean): void {
  drives = [true, false].map((canReadKernel) => {
    const drive = new PacketDrive({}, {}, { canReadKernel, buckets });
    for (const protocol of ['TCP', 'UDP'] as const)
      publish(drive, 'IPv4', { protocol, rule: { masquerade } });
    return drive;
  });
}

/** By both, with the same outcome. */
function play(program: string, frame: Uint8Array): Uint8Array {
  const [here, far] = drives.map((drive) => drive.run(program, frame));
  const shown = [frame, here!.frame, far!.frame].map((bytes) => describeFrame(bytes));
  expect([here!.action, shown[1]], shown[0]).toEqual([far!.action, shown[2]]);
  return here!.frame;
}

/** Both hooks. */
const through = (line: string): string =>
  describeFrame(play('fl_egress', play('fl_ingress', buildFrame(line))));

function begin(port: number): void {
  const seen = through(`${client(port)} > ${vip()} tcp SYN seq=1000`).split(' > ')[0]!;
  through(`${pod(5)} > ${seen} tcp SYN ACK seq=5000 ack=1001`);
  through(`${client(port)} > ${vip()} tcp ACK seq=1001 ack=5001`);
  through(`${client(port)} > ${vip()} udp payload=1`);
}

describe.each([false, true])('masqueraded: %s', (masquerade) => {
  const seenOf = (port: number): string => (masquerade ? node(port) : client(port));

  test.each([2048, 16])(`${PACKETS} packets, a table of %i buckets (seed ${SEED})`, (buckets) => {
    open(buckets, masquerade);
    const random = randomOf(SEED);
    const any = (count: number): number => Math.floor(random() * count);
    const ports = Array.from({ length: CLIENTS }, (_, n) => 40_000 + n);
    for (const port of ports) begin(port);
    const words = [
      () =>
        `tcp ACK seq=${1001 + any(3) * 70_000} ack=${5001 + any(3) * 70_000} payload=${any(60)}`,
      () => `tcp ACK seq=${any(2 ** 32)} ack=${any(2 ** 32)} payload=3`, // forged
      () => `tcp FIN ACK seq=1001 ack=5001`,
      () => `tcp RST ACK seq=1001 ack=5001`,
      () => `tcp SYN seq=${1000 + any(9)}`,
      () => `udp payload=${any(60)}`,
    ];
    // Mostly data.
    const word = (): string => words[random() < 0.1 ? any(words.length) : 5 * any(2)]!();
    for (let n = 0; n < PACKETS; n += 1) {
      const port = ports[any(CLIENTS)]!;
      const line =
        random() < 0.5
          ? `${client(port)} > ${vip()} ${word()}`
          : `${pod(5)} > ${seenOf(port)} ${word()}`;
      through(line);
    }
    const [here, far] = drives.map((drive) => drive.conns());
    expect(here).toEqual(far);
    expect(here!.some(({ state }) => state === 'established')).toBe(true);
  });
});
