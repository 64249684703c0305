// SPDX-License-Identifier: Apache-2.0
// The life of a flow that a connection of the node has become, because a client has its port: it begins anew, ends, is never answered.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Sweep } from '../../../../src/dataplane/bpf/flows/sweep/sweep.ts';
import { sharedDrive } from './support/shared-drive.ts';
import { names, PLACES, publish } from './support/stage.ts';
import { kernelSweep, refusal } from './support/sweeps.ts';

const drive = sharedDrive();
const refused = refusal();
let sweep: Sweep;

const PORT = 40_000;
const sourcePort = (line: string): number => Number(/:(\d+) > /.exec(line)?.[1] ?? 0);

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, node, pod } = names(family);
  const digit = family === 'IPv4' ? 4 : 6;
  const own = (word: string, port = PORT): string =>
    drive.egress(`${node(port)} > ${pod(5)} ${word}`);
  const answer = (port: number, word: string): string =>
    drive.ingress(`${pod(5)} > ${node(port)} ${word}`);
  const flows = () =>
    drive.flows('main', family).filter(({ key }) => key.source.address !== PLACES[family].client);

  beforeEach((context) => {
    if (refused !== undefined) context.skip(refused);
    sweep = kernelSweep(drive);
    publish(drive, family, { rule: { masquerade: true } });
    drive.through(`${client(PORT)} > ${vip()} tcp SYN seq=1`);
  });

  /** Nothing is sent for so long. */
  function pass(seconds: number): void {
    for (const leg of ['flow', 'nat', 'snat'] as const) {
      for (const tier of ['', 'new_']) {
        drive.edit(`fl_${tier}${leg}${digit}`, (value) => {
          const view = new DataView(value.buffer, value.byteOffset);
          const at = leg === 'flow' ? 16 : 4;
          view.setUint32(at, view.getUint32(at, true) - seconds, true);
        });
      }
    }
    while (!sweep.step());
  }

  /** Its port on the wire. */
  function connect(seq: number): number {
    const port = sourcePort(own(`tcp SYN seq=${seq}`));
    answer(port, 'tcp SYN ACK');
    own('tcp ACK');
    return port;
  }

  test('it gets another port, although the client’s flow has not noted its own yet', () => {
    drive.edit(`fl_new_nat${digit}`, (value) =>
      new DataView(value.buffer, value.byteOffset).setUint16(26, 0),
    );
    expect(sourcePort(own('tcp SYN seq=2'))).not.toBe(PORT);
  });

  test('it stays while it is idle', () => {
    const port = connect(2);
    expect(port).not.toBe(PORT);
    pass(80_000);
    expect(sourcePort(own('tcp ACK'))).toBe(port);
  });

  test.each(['RST', 'RST ACK', 'FIN ACK'])('it begins anew after a %s, and stays', (end) => {
    const port = connect(2);
    own(`tcp ${end}`);
    expect(connect(3)).toBe(port);
    pass(80_000);
    expect(sourcePort(own('tcp ACK'))).toBe(port);
    expect(answer(port, 'tcp ACK')).toBe(`${pod(5)} > ${node(PORT)} tcp ACK`);
  });

  test('its SYN, which leaves by a second device, is left, also when it begins anew', () => {
    const port = connect(2);
    expect(sourcePort(own('tcp SYN seq=2', port))).toBe(port);
    own('tcp RST');
    expect(sourcePort(own('tcp SYN seq=3'))).toBe(port);
    expect(sourcePort(own('tcp SYN seq=3', port))).toBe(port);
    expect(answer(port, 'tcp SYN ACK')).toBe(`${pod(5)} > ${node(PORT)} tcp SYN ACK`);
  });

  test.each([
    ['answered', []],
    ['accepted', ['RST ACK']],
  ])('it is gone after 20 seconds if it is not %s', (_, words) => {
    const port = sourcePort(own('tcp SYN seq=2'));
    for (const word of words) answer(port, `tcp ${word}`);
    pass(21);
    expect(flows()).toEqual([]);
  });

  test.each([
    ['both sides', ['FIN ACK'], 'FIN ACK'],
    ['the backend, by a RST', [], 'RST ACK'],
  ])('it is gone soon after its end by %s', (_, words, end) => {
    const port = connect(2);
    for (const word of words) own(`tcp ${word}`);
    answer(port, `tcp ${end}`);
    pass(21);
    expect(flows()).toEqual([]);
  });

  test('its address does not change, whatever that of the device is', () => {
    drive.putDevice({ [family]: family === 'IPv4' ? '192.0.2.77' : '2001:db8::77' });
    const line = own('tcp SYN seq=2');
    expect(line).toBe(`${node(sourcePort(line))} > ${pod(5)} tcp SYN seq=2`);
  });
});
