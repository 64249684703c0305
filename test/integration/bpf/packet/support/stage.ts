// SPDX-License-Identifier: Apache-2.0
// The Service that packet tests use, in both families: clients, a virtual address, a NodePort, two backends of
// which one is on another node.
import type { Family, Protocol } from '../../../../../src/model/types.ts';
import type { BackendSpec, RuleSpec } from '../../support/drive.ts';
import type { PacketDrive } from './packet-drive.ts';

export const PLACES = {
  IPv4: {
    client: '198.51.100.9',
    vip: '203.0.113.10',
    node: '192.0.2.11',
    pod: (n: number): string => `10.1.1.${n}`,
    port: (address: string, port: number): string => `${address}:${port}`,
  },
  IPv6: {
    client: '2001:db8:9::9',
    vip: 'fd00:96::10',
    node: '2001:db8::11',
    pod: (n: number): string => `fd00:1:1::${n}`,
    port: (address: string, port: number): string => `[${address}]:${port}`,
  },
} as const;

/** Short names of endpoints of a family, for packets as text. */
export function names(family: Family) {
  const at = PLACES[family];
  return {
    client: (port = 40_000) => at.port(at.client, port),
    vip: (port = 80) => at.port(at.vip, port),
    node: (port: number) => at.port(at.node, port),
    pod: (n: number, port = 8080) => at.port(at.pod(n), port),
  };
}

export interface Service {
  readonly protocol?: Protocol;
  /** The rule for every position, without its set. */
  readonly rule?: Omit<RuleSpec, 'set'>;
  readonly backends?: readonly Partial<BackendSpec>[];
  readonly backendPort?: number;
  readonly affinitySeconds?: number;
}

/** Port 80 of the virtual address; by default with backend 1 alone. */
export function publish(
  drive: PacketDrive,
  family: Family,
  { protocol = 'TCP', rule, backends = [{}], backendPort = 8080, affinitySeconds }: Service = {},
): void {
  const at = PLACES[family];
  backends.forEach((backend, index) => {
    const id = index + 1;
    drive.putBackend({ id, address: at.pod(4 + id), port: backendPort, ...backend });
  });
  const set = drive.putSet(
    0,
    backends.map((_, index) => index + 1),
  );
  drive.putFrontend({
    ...{ address: at.vip, port: 80, protocol, rules: { host: { ...rule, set } } },
    ...(affinitySeconds === undefined ? {} : { affinitySeconds }),
  });
}
