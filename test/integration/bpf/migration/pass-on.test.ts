// SPDX-License-Identifier: Apache-2.0
// While a table of connections is replaced, its programs call those of the next one for packets that they do not know: no first
// packet waits, and whichever program a later packet meets, its connection is found.
import { beforeEach, describe, expect, test } from 'vitest';
import { DEVICE_PROGRAMS } from '../../../../src/engines/bpf/layer.ts';
import { encodeU32 } from '../../../../src/engines/bpf/layout/layout.ts';
import type { PacketDrive } from '../packet/support/packet-drive.ts';
import { sharedDrive } from '../packet/support/shared-drive.ts';
import { names, publish } from '../packet/support/stage.ts';

const EVEN = 1;
const ODD = 2;

const former = sharedDrive({}, { withoutMac: true });
const next = sharedDrive({}, { withoutMac: true });

function setPhase({ object }: PacketDrive, passesOn: boolean, ports = 0): void {
  const value = Buffer.concat([encodeU32(Number(passesOn)), encodeU32(ports)]);
  object.map('fl_phase').put(encodeU32(0), value);
}

beforeEach(() => {
  for (const [at, name] of DEVICE_PROGRAMS.entries())
    former.object.map('fl_next').putProgram(encodeU32(at), next.object.program(name));
  setPhase(former, false);
  setPhase(next, false);
});

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, node, pod } = names(family);
  const masquerade = { rule: { masquerade: true } };
  const began = (): readonly [former: number, next: number] => [
    former.conns(family).length,
    next.conns(family).length,
  ];
  function publishBoth(service: Parameters<typeof publish>[2] = {}): void {
    for (const drive of [former, next]) {
      publish(drive, family, service);
      drive.putDevice({
        [family]: names(family)
          .node(0)
          .replace(/[[\]]|:0$/g, ''),
      });
    }
  }

  test('a connection that the former table has goes on there, another one begins in the next', () => {
    publishBoth();
    const ack = (n: number): string => `${client(40_000 + n)} > ${vip()} tcp ACK payload=3`;
    former.ingress(`${client(40_001)} > ${vip()} tcp SYN`);
    setPhase(former, true);
    expect(former.ingress(ack(1))).toContain(`> ${pod(5)}`);
    expect(former.ingress(`${client(40_002)} > ${vip()} tcp SYN`)).toContain(`> ${pod(5)}`);
    expect(began()).toEqual([1, 1]);
    expect(former.ingress(ack(2))).toContain(`> ${pod(5)}`);
    expect(former.egress(`${pod(5)} > ${client(40_002)} tcp SYN ACK`)).toContain(`${vip()} > `);
  });

  test('requests and answers that are masqueraded: by the former programs, as by the next ones', () => {
    publishBoth(masquerade);
    setPhase(former, true, EVEN);
    setPhase(next, false, ODD);
    const request = former.through(`${client()} > ${vip()} tcp SYN`);
    const [, snat = ''] = /^(\S+) > /.exec(request) ?? [];
    expect(request).toContain(`> ${pod(5)}`);
    expect(snat).toMatch(new RegExp(`^${node(0).slice(0, -1).replace(/[[\]]/g, '\\$&')}`));
    for (const drive of [former, next]) {
      const answer = drive.through(`${pod(5)} > ${snat} tcp SYN ACK`);
      expect(answer).toContain(`${vip()} > ${client()}`);
    }
    expect(began()).toEqual([0, 1]);
  });

  test('each gives its share of ports, whatever the port of the client', () => {
    publishBoth(masquerade);
    setPhase(former, false, EVEN);
    setPhase(next, false, ODD);
    const given = (drive: PacketDrive, first = 2_000): readonly number[] =>
      Array.from({ length: 40 }, (_, n) => {
        const request = drive.through(`${client(first + n)} > ${vip()} tcp SYN`);
        return Number(/^\S+:(\d+) > /.exec(request)?.[1]) % 2;
      });
    expect(new Set(given(former))).toEqual(new Set([0]));
    expect(new Set(given(next))).toEqual(new Set([1]));
    setPhase(next, false);
    expect(new Set(given(next, 3_000))).toEqual(new Set([0, 1]));
  });

  test('a connection that is over begins anew in the next table, and its packets are of that one', () => {
    publishBoth();
    const from = (flags: string): string => `${client()} > ${vip()} tcp ${flags}`;
    former.ingress(from('SYN'));
    former.egress(`${pod(5)} > ${client()} tcp SYN ACK`);
    former.ingress(from('RST'));
    setPhase(former, true);
    expect(former.ingress(from('SYN'))).toContain(`> ${pod(5)}`);
    expect(began()).toEqual([0, 1]);
    expect(former.ingress(from('ACK payload=3'))).toContain(`> ${pod(5)}`);
    expect(began()).toEqual([0, 1]);
  });

  test('devices without Ethernet headers', () => {
    // A test run takes the EtherType from where a network packet has bytes of its source.
    const [from, to] =
      family === 'IPv4'
        ? ['8.0.0.9:40000', '8.0.0.5']
        : ['[2001:db8:86dd::9]:40000', '2001:db8:86dd::5'];
    const backend = family === 'IPv4' ? `${to}:8080` : `[${to}]:8080`;
    publishBoth({ backends: [{ address: to }] });
    setPhase(former, true);
    const syn = former.withoutMac('fl_ingress_l3', `${from} > ${vip()} tcp SYN`);
    expect(syn).toContain(`> ${backend}`);
    const answer = former.withoutMac('fl_egress_l3', `${backend} > ${from} tcp SYN ACK`);
    expect(answer).toContain(`${vip()} > `);
    expect(began()).toEqual([0, 1]);
  });

  test('of nobody: the packet is left', () => {
    publishBoth();
    setPhase(former, true);
    for (const at of DEVICE_PROGRAMS.keys()) former.object.map('fl_next').delete(encodeU32(at));
    const syn = `${client()} > ${vip()} tcp SYN`;
    expect(former.ingress(syn)).toContain(`> ${vip()}`);
    expect(began()).toEqual([0, 0]);
  });
});
