// SPDX-License-Identifier: Apache-2.0
// How long virtual servers keep clients, from answers as the kernel sends them (net/netfilter/ipvs/ip_vs_ctl.c).
import { expect, test } from 'vitest';
import { keptByIpvs } from '../../../../src/sys/netlink/ipvs/kept.ts';
import type { Request } from '../../../../src/sys/netlink/request.ts';
import { attribute } from '../../../../src/sys/netlink/wire.ts';

const FAMILY = 37;
const u16 = (value: number): Uint8Array => Uint8Array.of(value & 0xff, value >> 8);
const u32 = (...values: readonly number[]): Uint8Array =>
  new Uint8Array(Uint32Array.from(values).buffer);
const generic = (...attributes: readonly Uint8Array[]): Uint8Array =>
  Uint8Array.of(1, 1, 0, 0, ...attributes.flatMap((bytes) => [...bytes]));
const server = (flags: number, seconds: number): Uint8Array =>
  generic(
    attribute(
      1,
      ...[attribute(1, u16(2)), attribute(2, u16(6))],
      attribute(3, Uint8Array.of(10, 96, 0, 15, ...new Uint8Array(12))),
      ...[attribute(4, Uint8Array.of(0, 80)), attribute(7, u32(flags, 0xffffffff))],
      attribute(8, u32(seconds)),
    ),
  );

const answering =
  (...servers: readonly Uint8Array[]) =>
  ({ type }: Request) =>
    type === FAMILY
      ? servers.map((body) => ({ type, flags: 0, body }))
      : [{ type, flags: 0, body: generic(attribute(1, u16(FAMILY)), attribute(2)) }];

test('a virtual server that keeps clients, with address, port and seconds', () => {
  const [found, ...others] = keptByIpvs(answering(server(1, 600)));
  expect(others).toEqual([]);
  expect(found).toMatchObject({ protocol: 6, port: 80, seconds: 600 });
  expect([...found!.address.subarray(0, 4)]).toEqual([10, 96, 0, 15]);
});

test('one that keeps nobody, and one of a firewall mark, are none', () => {
  expect(keptByIpvs(answering(server(0, 0)))).toEqual([]);
  expect(keptByIpvs(answering(generic(attribute(1, attribute(5, u32(7)))), generic()))).toEqual([]);
});

test('without IPVS it fails', () => {
  expect(() => keptByIpvs(() => [])).toThrow('ENOENT');
});
