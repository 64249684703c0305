// SPDX-License-Identifier: Apache-2.0
// CHECKSUM_COMPLETE: the device, or what has verified the checksum of a tunnel's packet, has given the kernel the sum of all
// bytes, and it must stay right when they change. The kernel compares it after the run (BPF_F_TEST_SKB_CHECKSUM_COMPLETE).
import { beforeEach, describe, expect, test } from 'vitest';
import { reasonOf } from '../../../../../src/errors.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { describeFrame } from '../../../../support/packets/describe.ts';
import { PacketDrive } from '../support/packet-drive.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, publish } from '../support/stage.ts';

const CHECKSUM_COMPLETE = 4;

/** undefined: the kernel has the flag. */
function refusal(): string | undefined {
  const drive = new PacketDrive();
  try {
    run(drive, 'fl_ingress', '192.0.2.1:1 > 192.0.2.2:2 tcp SYN');
    return undefined;
  } catch (error) {
    return `the kernel has no BPF_F_TEST_SKB_CHECKSUM_COMPLETE: ${reasonOf(error)}`;
  } finally {
    drive.close();
  }
}

function run(drive: PacketDrive, program: string, line: string): string {
  const options = { dataIn: buildFrame(line), flags: CHECKSUM_COMPLETE };
  return describeFrame(drive.object.program(program).testRun(options).dataOut);
}

const refused = refusal();

describe.each([
  ['the program’s own arithmetic', true, true],
  ['the same, with what a helper has read', true, false],
  ['the kernel’s helpers', false, false],
])('by %s', (_, canReadKernel, canCast) => {
  const drive = sharedDrive({}, { canReadKernel, canCast });
  beforeEach((context) => {
    if (refused !== undefined) context.skip(refused);
  });

  const CASES = (['IPv4', 'IPv6'] as const).flatMap((family) =>
    (['tcp', 'udp'] as const).flatMap((protocol) =>
      [false, true].map((masquerade) => ({ family, protocol, masquerade })),
    ),
  );

  test.each(CASES)('$family, $protocol, masqueraded: $masquerade', (at) => {
    const { family, protocol, masquerade } = at;
    const { client, vip, pod, node } = names(family);
    publish(drive, family, {
      protocol: protocol === 'tcp' ? 'TCP' : 'UDP',
      rule: { masquerade },
    });
    const seen = masquerade ? node(40_000) : client();
    for (let n = 0; n < 50; n++) {
      const [there, back] =
        protocol === 'tcp'
          ? [`tcp SYN seq=${n * 77_777_777}`, `tcp SYN ACK seq=${n * 5_555_555}`]
          : [`udp payload=${n}`, `udp payload=${n * 3}`];
      expect(run(drive, 'fl_ingress', `${client()} > ${vip()} ${there}`)).toContain(pod(5));
      expect(run(drive, 'fl_egress', `${client()} > ${pod(5)} ${there}`)).toContain(`${seen} >`);
      if (masquerade) run(drive, 'fl_ingress', `${pod(5)} > ${seen} ${back}`);
      expect(run(drive, 'fl_egress', `${pod(5)} > ${client()} ${back}`)).toContain(vip());
    }
  });
});
