// SPDX-License-Identifier: Apache-2.0
// Two nodes for direct return, each with its own programs and maps: one that clients send to, and one of the backend.
import { execFileSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { afterAll, beforeAll } from 'vitest';
import {
  type Cookies,
  encodeCookies,
  encodeLocalBackendKey,
  encodeNodeAddress,
  encodePeer,
} from '../../../../../src/engines/bpf/direct-return/direct-layout.ts';
import {
  DIRECT_MTU_OFFSET,
  DIRECT_PORT_OFFSET,
  encodeU32,
} from '../../../../../src/engines/bpf/layout/layout.ts';
import type { PacketDrive } from './packet-drive.ts';

export const NODES = {
  IPv4: { own: '192.0.2.11', peer: '192.0.2.12', stranger: '192.0.2.13' },
  IPv6: { own: '2001:db8::11', peer: '2001:db8::12', stranger: '2001:db8::13' },
} as const;

export const GENEVE_PORT = 6081;

const ip = (...args: string[]): void => void execFileSync('ip', args, { stdio: 'pipe' });

/** A network namespace with routes to the other nodes by a device of this MTU. */
export function withRoutes(drive: PacketDrive, mtu = 1500): { setMtu(mtu: number): void } {
  const name = `fl-geneve-${process.pid}-${Math.random().toString(36).slice(2, 7)}`;
  const inside = (...args: string[]): void => ip('-n', name, ...args);
  const setMtu = (value: number): void => inside('link', 'set', 'up0', 'mtu', `${value}`);
  beforeAll(() => {
    ip('netns', 'add', name);
    inside('link', 'set', 'lo', 'up');
    inside('link', 'add', 'up0', 'type', 'veth', 'peer', 'name', 'up1');
    inside('link', 'set', 'up1', 'up');
    setMtu(mtu);
    inside('link', 'set', 'up0', 'up');
    inside('address', 'add', '192.0.2.11/24', 'dev', 'up0');
    inside('address', 'add', '2001:db8::11/64', 'dev', 'up0', 'nodad');
    const forward = ['net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'];
    execFileSync('ip', ['netns', 'exec', name, 'sysctl', '-qw', ...forward]);
    for (const { peer } of Object.values(NODES)) {
      inside('neigh', 'add', peer, 'lladdr', '02:00:00:00:00:12', 'dev', 'up0');
    }
    drive.netns = openSync(`/run/netns/${name}`, 'r');
  });
  afterAll(() => {
    if (drive.netns !== undefined) closeSync(drive.netns);
    drive.netns = undefined;
    ip('netns', 'del', name);
  });
  return { setMtu };
}

export function putPeer(drive: PacketDrive, address: string, port = GENEVE_PORT): void {
  drive.object.map('fl_peer').put(encodeNodeAddress(address), encodePeer({ port }));
}

export function removePeer(drive: PacketDrive, address: string): void {
  drive.object.map('fl_peer').delete(encodeNodeAddress(address));
}

/** @param address undefined: it is not known */
export function putBackendNode(drive: PacketDrive, id: number, address?: string): void {
  const bytes = address === undefined ? new Uint8Array(16) : encodeNodeAddress(address);
  drive.object.map('fl_backend_node').put(encodeU32(id), bytes);
}

/** The node takes requests in Geneve. */
export function takeGeneve(drive: PacketDrive, { port = GENEVE_PORT, mtu = 0 } = {}): void {
  const runtime = new DataView(drive.object.map('fl_runtime').mmap());
  runtime.setUint16(DIRECT_PORT_OFFSET, port, true);
  runtime.setUint16(DIRECT_MTU_OFFSET, mtu, true);
}

/** undefined: the cluster has no secret. */
export function putCookies(drive: PacketDrive, cookies: Cookies | undefined): void {
  const map = drive.object.map('fl_cookie');
  if (cookies === undefined) map.delete(encodeU32(0));
  else map.put(encodeU32(0), encodeCookies(cookies));
}

export function putLocalBackend(
  drive: PacketDrive,
  backend: { readonly id: number; readonly address: string; readonly port: number },
  serviceId = 1,
): void {
  const key = encodeLocalBackendKey({ ...backend, serviceId });
  drive.object.map('fl_local_be').put(key, encodeU32(backend.id));
}
