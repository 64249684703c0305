// SPDX-License-Identifier: Apache-2.0
// Requests of direct return, and the Geneve that they travel in, with the program at XDP before that at ingress, where XDP knows a way on: it
// leaves all of them as they came.
import { describe, expect, test } from 'vitest';
import { enterUplinks } from '../support/uplinks.ts';

process.env['FAIRLEAD_XDP_FIRST'] = 'direct';
enterUplinks('one way');

describe('sent', async () => {
  await import('../geneve/send.test.ts');
});
describe('received', async () => {
  await import('../geneve/receive.test.ts');
});
describe('broken', async () => {
  await import('../geneve/fuzz.test.ts');
});

test('what has no direct return it sends', async () => {
  const { PacketDrive } = await import('../support/packet-drive.ts');
  const { names, publish } = await import('../support/stage.ts');
  const drive = new PacketDrive();
  const { client, vip } = names('IPv4');
  for (const returnsDirectly of [true, false]) {
    publish(drive, 'IPv4', { rule: { masquerade: true, returnsDirectly } });
    drive.ingress(`${client()} > ${vip()} tcp SYN`);
    expect(drive.reasons(true)['XDP_SENT']).toBe(returnsDirectly ? undefined : 1);
  }
  drive.close();
});
