// SPDX-License-Identifier: Apache-2.0
// Where XDP may send to no device it leaves every packet as it came, and no trace of it: tc gives the same answers.
import { expect, test } from 'vitest';
import { playAgain } from '../support/again.ts';

playAgain('left');

test('packets of these tests are left because of the device', async () => {
  const { PacketDrive } = await import('../support/packet-drive.ts');
  const { names, publish } = await import('../support/stage.ts');
  const drive = new PacketDrive();
  publish(drive, 'IPv4', {});
  const { client, vip, pod } = names('IPv4');
  expect(drive.ingress(`${client()} > ${vip()} tcp SYN`)).toBe(`${client()} > ${pod(5)} tcp SYN`);
  expect(drive.reasons(true)).toEqual({ XDP_NO_TARGET: 1 });
  drive.close();
});
