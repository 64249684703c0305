// SPDX-License-Identifier: Apache-2.0
// Where XDP knows the way, it sends packets as they would leave after both hooks of tc, and tc goes on with flows that began at XDP.
import { expect, test } from 'vitest';
import { playAgain } from '../support/again.ts';

playAgain('sent');

test('packets of these tests are sent from XDP', async () => {
  const { PacketDrive } = await import('../support/packet-drive.ts');
  const { names, publish } = await import('../support/stage.ts');
  const drive = new PacketDrive();
  publish(drive, 'IPv4', {});
  const { client, vip, pod } = names('IPv4');
  expect(drive.through(`${client()} > ${vip()} tcp SYN`)).toBe(`${client()} > ${pod(5)} tcp SYN`);
  expect(drive.reasons(true)).toEqual({ XDP_SENT: 1 });
  drive.close();
});
