// SPDX-License-Identifier: Apache-2.0
// What the API server of a column has: Services that are measured, others that only have to be there, and one Service
// with thousands of endpoints. Pure.

import { SERVICE_NAME_LABEL } from '../../../src/model/labels.ts';
import type { Kind, ObjectChange } from '../../../src/model/types.ts';
import { NODE_ADDRESS, PODS } from '../../lab/columns/network.ts';

export const NODE = 'node';
export const ENDPOINTS_EACH = 10;
/** Ports of the far pod: what Services lead to, and what no Service leads to. Those of outside are another program's. */
export const SERVER_PORTS = {
  inside: { translated: 8080, direct: 8081 },
  outside: { translated: 8082, direct: 8083 },
} as const;
export const NODE_PORT = 30_080;
export const ADDRESSES = {
  inside: '10.96.0.10',
  outside: '10.96.0.11',
  probe: '10.96.0.12',
  roll: '10.96.0.13',
  last: '10.96.0.14',
} as const;
/** First addresses of the halves of the far pod's range. */
const HALVES = [ipv4(10, 1, 64, 0), ipv4(10, 1, 96, 0)] as const;
const ENDPOINTS = ipv4(10, 32, 0, 0);

export type Half = 0 | 1;

export interface ApiObject {
  readonly kind: Kind;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly [section: string]: unknown;
}

/** The node, and the Services that traffic goes to. */
export function measuredObjects(): readonly ObjectChange[] {
  const { inside, outside } = SERVER_PORTS;
  return [
    nodeObject(),
    service('inside', ADDRESSES.inside, bothProtocols(inside.translated)),
    slice('inside', 'inside', { addresses: [PODS.remote], port: inside.translated, isBoth: true }),
    service('outside', ADDRESSES.outside, bothProtocols(outside.translated), {
      type: 'NodePort',
      nodePort: NODE_PORT,
    }),
    slice('outside', 'outside', {
      addresses: [PODS.remote],
      port: outside.translated,
      isBoth: true,
    }),
    service('probe', ADDRESSES.probe, [tcpPort]),
    probeSlice(0),
  ].map(put);
}

/** The endpoint of the Service whose changes are timed: an address of one half of the far pod's range. */
export const probeSlice = (half: Half): ApiObject =>
  slice('probe', 'probe', { addresses: [text(HALVES[half] + 1)] });

/** Services with these numbers, with endpoints that nobody has. */
export function otherObjects(from: number, to: number): readonly ObjectChange[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, at) => from + at).flatMap((number) => [
    put(service(otherName(number), otherAddress(number), [tcpPort])),
    put(otherSlice(number, 0)),
  ]);
}

/** @param turn other turns have another first endpoint */
export function otherSlice(number: number, turn: number): ApiObject {
  const first = ENDPOINTS + number * (ENDPOINTS_EACH + 1);
  const addresses = Array.from({ length: ENDPOINTS_EACH }, (_, at) =>
    text(first + at + (at === 0 && turn % 2 === 1 ? ENDPOINTS_EACH : 0)),
  );
  return slice(otherName(number), otherName(number), { addresses });
}

/** Put again, it is the last of all Services: if it answers, all are programmed. */
export function lastObjects(): readonly ObjectChange[] {
  const objects = [
    service('last', ADDRESSES.last, [tcpPort]),
    slice('last', 'last', { addresses: [text(HALVES[0] + 1)] }),
  ];
  return [...objects.map(put).map(removed), ...objects.map(put)];
}

export interface Roll {
  readonly endpoints: number;
  readonly slices: number;
}

/** All endpoints are in one half of the far pod's range. */
export const rollObjects = (roll: Roll, half: Half): readonly ObjectChange[] => [
  put(service('roll', ADDRESSES.roll, [tcpPort])),
  ...Array.from({ length: roll.slices }, (_, number) => put(rollSlice(roll, number, half))),
];

export function rollSlice({ endpoints, slices }: Roll, number: number, half: Half): ApiObject {
  const count = Math.ceil(endpoints / slices);
  const first = HALVES[half] + 1 + number * count;
  const addresses = Array.from({ length: count }, (_, at) => text(first + at));
  return slice(`roll-${number}`, 'roll', { addresses });
}

export const put = (object: ApiObject): ObjectChange => {
  const { kind, metadata } = object;
  return {
    type: 'put',
    ref: { kind, namespace: metadata.namespace ?? '', name: metadata.name },
    object,
  };
};

export const removed = ({ ref }: ObjectChange): ObjectChange => ({ type: 'remove', ref });

const otherName = (number: number): string => `other-${number}`;
const otherAddress = (number: number): string => text(ipv4(10, 97, 0, 0) + number + 1);

const nodeObject = (): ApiObject => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: NODE },
  spec: { podCIDR: '10.1.1.0/24', podCIDRs: ['10.1.1.0/24'] },
  status: { addresses: [{ type: 'InternalIP', address: NODE_ADDRESS }] },
});

interface ServicePort {
  readonly name: string;
  readonly protocol: string;
  readonly port: number;
  readonly targetPort: number;
}

const tcpPort: ServicePort = { name: 'tcp', protocol: 'TCP', port: 80, targetPort: 8080 };

const bothProtocols = (targetPort: number): readonly ServicePort[] => [
  { ...tcpPort, targetPort },
  { name: 'udp', protocol: 'UDP', port: 80, targetPort },
];

function service(
  name: string,
  address: string,
  ports: readonly ServicePort[],
  external: { readonly type?: 'NodePort'; readonly nodePort?: number } = {},
): ApiObject {
  const { type = 'ClusterIP', ...nodePort } = external;
  const addresses = { clusterIP: address, clusterIPs: [address], ipFamilies: ['IPv4'] };
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'default' },
    spec: { type, ...addresses, ports: ports.map((port) => ({ ...port, ...nodePort })) },
  };
}

interface SliceContent {
  readonly addresses: readonly string[];
  readonly port?: number;
  readonly isBoth?: boolean;
}

function slice(name: string, owner: string, content: SliceContent): ApiObject {
  const { addresses, port = SERVER_PORTS.inside.translated, isBoth = false } = content;
  const protocols = isBoth ? ['TCP', 'UDP'] : ['TCP'];
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, namespace: 'default', labels: { [SERVICE_NAME_LABEL]: owner } },
    addressType: 'IPv4',
    ports: protocols.map((protocol) => ({ name: protocol.toLowerCase(), protocol, port })),
    endpoints: addresses.map((address) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: 'far',
    })),
  };
}

function ipv4(a: number, b: number, c: number, d: number): number {
  return ((a * 256 + b) * 256 + c) * 256 + d;
}

const text = (address: number): string =>
  [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join('.');
