// SPDX-License-Identifier: Apache-2.0
// While flows are carried over to other maps no flow begins, and those that there are go on.
import { describe, expect, test } from 'vitest';
import { encodeU32 } from '../../../src/engines/bpf/layout/layout.ts';
import { sharedDrive } from './packet/support/shared-drive.ts';
import { names, publish } from './packet/support/stage.ts';

const drive = sharedDrive();
const HOLD_UNTIL = 66;
const now = (): number => Number(process.hrtime.bigint() / 1_000_000_000n);

function holdUntil(second: number): void {
  const map = drive.object.map('fl_packet');
  const settings = map.get(encodeU32(0))!;
  new DataView(settings.buffer, settings.byteOffset).setUint16(HOLD_UNTIL, second & 0xffff, true);
  map.put(encodeU32(0), settings);
}

function heldUntil(): number {
  const settings = drive.object.map('fl_packet').get(encodeU32(0))!;
  return new DataView(settings.buffer, settings.byteOffset).getUint16(HOLD_UNTIL, true);
}

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, pod } = names(family);
  const syn = (n: number): string => drive.ingress(`${client(40_000 + n)} > ${vip()} tcp SYN`);
  const isTranslated = (line: string): void => expect(line).toContain(`> ${pod(5)}`);

  test('first packets are dropped, also those that would be answered, and flows go on', () => {
    publish(drive, family);
    isTranslated(syn(1));
    /** It ends by itself: on a machine with other work, between two packets. */
    const held = (line: () => string): string => {
      holdUntil(now() + 2);
      return line();
    };
    const ack = (n: number): string =>
      drive.ingress(`${client(40_000 + n)} > ${vip()} tcp ACK payload=3`);
    const counted = (): number => drive.reasons()['DROPPED_BUSY'] ?? 0;
    const before = counted();
    expect(held(() => syn(2))).toBe('dropped');
    expect(held(() => ack(3))).toBe('dropped');
    expect(counted() - before).toBe(2);
    isTranslated(held(() => ack(1)));
    holdUntil(0);
    isTranslated(syn(2));
  });

  test('a hold ends by itself', () => {
    publish(drive, family);
    holdUntil(now() - 1);
    isTranslated(syn(4));
    // Of an agent that was killed long ago.
    holdUntil(now() + 30_000);
    isTranslated(syn(5));
  });

  test('the low bits of a second come again after 18 hours: who finds a hold that has ended removes it', () => {
    publish(drive, family);
    holdUntil(now() - 1);
    isTranslated(syn(6));
    expect(heldUntil()).toBe(0);
  });
});
