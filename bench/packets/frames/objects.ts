// SPDX-License-Identifier: Apache-2.0
// What the API server has for frames: NodePort Services whose backends are addresses of the far pod, half of them UDP's.

import type { ObjectChange } from '../../../src/model/types.ts';
import { nodeObject, put, readyEndpoint, sliceObject } from '../../../test/support/objects.ts';
import { NODE_ADDRESS, PODS } from '../../../tools/lab/columns/network.ts';
import { ENDPOINTS_EACH, NODE, service, sliceIn } from '../site/objects.ts';

const PROTOCOLS = ['TCP', 'UDP'] as const;
/** Of the one Service, and of one with a backend on the node. */
export const FRAME_PORTS = { remote: 30090, local: 30091 } as const;
/** As in frames.h. */
export const ENDPOINT_PORT = 9000;
/** Addresses of the far pod that are backends. */
export const BACKENDS = 16_000;
/** Of all Services; below the ports that the node's own connections take. */
const FIRST_PORT = 20_000;

/** In FAR_RANGE. */
export const endpointAt = (index: number): string => {
  const host = 1 + (index % BACKENDS);
  return `10.1.${64 + (host >> 8)}.${host & 255}`;
};

/** Of TCP are the even ones. */
export const firstPort = (protocol: (typeof PROTOCOLS)[number]): number =>
  FIRST_PORT + PROTOCOLS.indexOf(protocol);

export const servicesOf = (protocol: (typeof PROTOCOLS)[number], services: number): number =>
  Math.floor((services + 1 - PROTOCOLS.indexOf(protocol)) / 2);

/** The node, and a Service of each kind of backend, for both protocols. */
export function firstObjects(): readonly ObjectChange[] {
  const endpoints = {
    remote: Array.from({ length: ENDPOINTS_EACH }, (_, at) => readyEndpoint(endpointAt(at), 'far')),
    local: [readyEndpoint(PODS.local, NODE)],
  };
  return [
    put(
      nodeObject(NODE, {
        spec: { podCIDR: '10.1.1.0/24', podCIDRs: ['10.1.1.0/24'] },
        status: { addresses: [{ type: 'InternalIP', address: NODE_ADDRESS }] },
      }),
    ),
    ...(['remote', 'local'] as const).flatMap((name, at) =>
      nodePort(name, `10.96.0.${20 + at}`, {
        port: FRAME_PORTS[name],
        protocols: PROTOCOLS,
        endpoints: endpoints[name],
      }),
    ),
  ];
}

/** All that frames are for at random. */
export const manyObjects = (count: number): readonly ObjectChange[] =>
  Array.from({ length: count }, (_, number) =>
    nodePort(`many-${number}`, `10.97.${number >> 8}.${number & 255}`, {
      port: FIRST_PORT + number,
      protocols: [PROTOCOLS[number % 2]!],
      endpoints: Array.from({ length: ENDPOINTS_EACH }, (_, at) =>
        readyEndpoint(endpointAt(number * ENDPOINTS_EACH + at), 'far'),
      ),
    }),
  ).flat();

interface NodePort {
  readonly port: number;
  readonly protocols: readonly string[];
  readonly endpoints: readonly object[];
}

function nodePort(
  name: string,
  address: string,
  { port, protocols, endpoints }: NodePort,
): readonly ObjectChange[] {
  const ports = (more: object): object[] =>
    protocols.map((protocol) => ({ name: protocol.toLowerCase(), protocol, ...more }));
  return [
    service(name, address, {
      type: 'NodePort',
      ports: ports({ port: 80, targetPort: ENDPOINT_PORT, nodePort: port }),
    }),
    sliceObject(name, endpoints, {
      metadata: sliceIn(name, name),
      ports: ports({ port: ENDPOINT_PORT }),
    }),
  ].map(put);
}
