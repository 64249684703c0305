// SPDX-License-Identifier: Apache-2.0
// What the API server has: one Service that is measured, and others that only have to be there.

import type { ObjectChange } from '../../../src/model/types.ts';
import { endpointAddress } from '../../../test/integration/cluster/objects/load.ts';
import {
  clusterIp,
  nodeObject,
  put,
  readyEndpoint,
  serviceObject,
  sliceMetadata,
  sliceObject,
} from '../../../test/support/objects.ts';
import { NODE_ADDRESS, PODS } from '../../../tools/lab/columns/network.ts';

export const NODE = 'node';
export const NODE_PORTS = { local: 30080, remote: 30081 } as const;
export const ENDPOINTS_EACH = 10;
/** Of a Service that comes after all others: if it answers, they are programmed. */
export const LAST_PORT = 30082;
const TARGET_PORT = 8080;
const PROTOCOLS = ['TCP', 'UDP'] as const;

type Where = keyof typeof NODE_PORTS;

const portsOf = (name: string, more: object): object[] =>
  PROTOCOLS.map((protocol) => ({ name: `${name}-${protocol.toLowerCase()}`, protocol, ...more }));

/** The node, and the Service whose two ports each lead to one pod. */
export function measuredObjects(): readonly ObjectChange[] {
  const backends = Object.keys(NODE_PORTS) as Where[];
  const ports = backends.flatMap((where, at) =>
    portsOf(where, { port: 80 + at, targetPort: TARGET_PORT, nodePort: NODE_PORTS[where] }),
  );
  return [
    nodeObject(NODE, {
      spec: { podCIDR: '10.1.1.0/24', podCIDRs: ['10.1.1.0/24'] },
      status: { addresses: [{ type: 'InternalIP', address: NODE_ADDRESS }] },
    }),
    service('measured', '10.96.0.10', { type: 'NodePort', ports }),
    ...backends.map((where) =>
      sliceObject('measured', [readyEndpoint(PODS[where], where === 'local' ? NODE : 'far')], {
        metadata: sliceIn(`measured-${where}`, 'measured'),
        ports: portsOf(where, { port: TARGET_PORT }),
      }),
    ),
  ].map(put);
}

/** So many Services with endpoints that nobody has, and last the one whose answer says that they are programmed. */
export function otherObjects(count: number): readonly ObjectChange[] {
  const others = Array.from({ length: count - 1 }, (_, at) => at + 1).flatMap((number) => {
    const name = `other-${number}`;
    const addresses = Array.from({ length: ENDPOINTS_EACH }, (_, at) =>
      endpointAddress(number, at),
    );
    return [
      service(name, `10.97.${number >> 8}.${number & 255}`, {}),
      sliceObject(
        name,
        addresses.map((address) => readyEndpoint(address)),
        {
          metadata: sliceIn(name, name),
        },
      ),
    ];
  });
  const ports = portsOf('last', { port: 80, targetPort: TARGET_PORT, nodePort: LAST_PORT });
  const last = [
    service('last', '10.96.0.11', { type: 'NodePort', ports }),
    sliceObject('last', [readyEndpoint(PODS.local, NODE)], {
      metadata: sliceIn('last', 'last'),
      ports: portsOf('last', { port: TARGET_PORT }),
    }),
  ];
  return [...others, ...last].map(put);
}

export const service = (name: string, address: string, spec: object) =>
  serviceObject(
    name,
    { ...clusterIp(address), ...spec },
    { metadata: { name, namespace: 'default' } },
  );

export const sliceIn = (name: string, owner: string) => ({
  ...sliceMetadata(owner, name),
  namespace: 'default',
});
