// SPDX-License-Identifier: Apache-2.0
// The life of a flow that a connection of the node has become, because a client has its port: it begins anew, ends, is never answered.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Sweep } from '../../../../src/engines/bpf/flows/sweep/sweep.ts';
import { sharedDrive } from './support/shared-drive.ts';
import { names, publish } from './support/stage.ts';
import { kernelSweep } from './support/sweeps.ts';

const drive = sharedDrive();
let sweep: Sweep;

const PORT = 40_000;
const sourcePort = (line: string): number => Number(/:(\d+) > /.exec(line)?.[1] ?? 0);

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, node, pod } = names(family);
  const own = (word: string, port = PORT): string =>
    drive.egress(`${node(port)} > ${pod(5)} ${word}`);
  const answer = (port: number, word: string): string =>
    drive.ingress(`${pod(5)} > ${node(port)} ${word}`);
  const flows = () => drive.conns(family).filter(({ isOwn }) => isOwn);

  beforeEach(() => {
    sweep = kernelSweep(drive);
    publish(drive, family, { rule: { masquerade: true } });
    drive.through(`${client(PORT)} > ${vip()} tcp SYN seq=1`);
  });

  /** Nothing is sent for so long. */
  function pass(seconds: number): void {
    drive.age(seconds, family);
    while (!sweep.step());
  }

  /** Its port on the wire. */
  function connect(seq: number): number {
    const port = sourcePort(own(`tcp SYN seq=${seq}`));
    answer(port, 'tcp SYN ACK');
    own('tcp ACK');
    return port;
  }

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
    // As long as the backend may have it in TIME-WAIT.
    pass(121);
    expect(flows()).toEqual([]);
  });

  test('its address does not change, whatever that of the device is', () => {
    drive.putDevice({ [family]: family === 'IPv4' ? '192.0.2.77' : '2001:db8::77' });
    const line = own('tcp SYN seq=2');
    expect(line).toBe(`${node(sourcePort(line))} > ${pod(5)} tcp SYN seq=2`);
  });
});
