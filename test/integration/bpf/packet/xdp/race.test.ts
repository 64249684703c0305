// SPDX-License-Identifier: Apache-2.0
// The first two frames of one connection, which come at one moment by two queues of a device: XDP serves both.
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { describeFrame } from '../../../../support/packets/describe.ts';
import { makeBpffs } from '../../../native/support/resources.ts';
import { onOneCpu } from '../../support/one-cpu.ts';
import { race } from '../support/race.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish } from '../support/stage.ts';
import { enterUplinks } from '../support/uplinks.ts';
import { contextOf, XDP, XdpDrive } from '../support/xdp-drive.ts';

enterUplinks('each');
const otherCpu = onOneCpu();
const drive = sharedDrive();
const xdp = new XdpDrive(drive.object);
const bpffs = makeBpffs();
beforeEach(() => xdp.putDevices());
afterAll(() => {
  xdp.close();
  bpffs.release();
});

const ROUNDS = 1_000;
const FIRST_PORT = 20_000;
/** Where other work takes the CPU from the one that the other waits for. Without waiting most pairs lose one. */
const MOST_LOST = 10;

describe.skipIf(otherCpu === undefined).each(FAMILIES)('%s', (family) => {
  const { client, vip, pod } = names(family);

  test.each([
    ['masqueraded', { masquerade: true }],
    ['with the address of the client', {}],
  ] as const)('%s', async (name, rule) => {
    const backends = [5, 6].map((n) => ({ address: PLACES[family].pod(n) }));
    publish(drive, family, { protocol: 'UDP', rule, backends });
    const frames = Array.from({ length: ROUNDS }, (__, n) =>
      buildFrame(`${client(FIRST_PORT + n)} > ${vip()} udp payload=5`),
    );
    const racing = {
      ...{ pin: join(bpffs.path, `${family}-${name.replaceAll(' ', '-')}`), cpu: otherCpu ?? '' },
      contextIn: contextOf(frames[0]!),
    };
    const [left, right] = await race(xdp.program, frames, frames, racing);
    const pairs = left.map((one, n) => [one, right[n]!] as const);
    const lost = pairs.filter((pair) => pair.some(({ action }) => action === XDP.drop)).length;
    const sent = pairs.filter((pair) => pair.every(({ action }) => action === XDP.redirect));
    process.stdout.write(
      `${family}: of ${pairs.length} pairs ${lost} lost one, ${sent.length} were sent\n`,
    );
    // Of some seconds one frame of a flow goes by the stack, see renews().
    expect(sent.length).toBeGreaterThan(pairs.length / 2);
    for (const [one, other] of sent) {
      expect(describeFrame(other.frame)).toBe(describeFrame(one.frame));
      const [, to] = describeFrame(one.frame).split(' ').slice(1);
      expect([pod(5), pod(6)]).toContain(to);
    }
    expect(lost).toBeLessThan(MOST_LOST);
    expect(drive.reasons().DROPPED_BUSY ?? 0).toBe(lost);
  });
});
