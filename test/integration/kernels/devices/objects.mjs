// SPDX-License-Identifier: Apache-2.0
// A Service with a backend on the node and one on another, as manifests.
import { renameSync, writeFileSync } from 'node:fs';
import { MANIFESTS } from './programs.mjs';

export const NODE_PORT = 30_080;

/** @param {string} addressType @param {readonly [address: string, nodeName: string][]} backends */
const slice = (addressType, backends) => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: {
    ...{ name: `web-${addressType.toLowerCase()}`, namespace: 'default' },
    labels: { 'kubernetes.io/service-name': 'web' },
  },
  addressType,
  ports: [
    { name: 'http', port: 8080, protocol: 'TCP' },
    { name: 'dns', port: 8080, protocol: 'UDP' },
  ],
  endpoints: backends.map(([address, nodeName]) => ({
    ...{ addresses: [address], nodeName, conditions: { ready: true } },
  })),
});

const OBJECTS = [
  {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'n1' },
    status: {
      addresses: ['192.0.2.11', '2001:db8::11'].map((address) => ({ type: 'InternalIP', address })),
    },
  },
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'web', namespace: 'default' },
    spec: {
      ...{ type: 'NodePort', clusterIP: '10.96.0.10', clusterIPs: ['10.96.0.10', 'fd00:96::10'] },
      ipFamilies: ['IPv4', 'IPv6'],
      ports: [
        { name: 'http', port: 80, targetPort: 8080, protocol: 'TCP', nodePort: NODE_PORT },
        { name: 'dns', port: 53, targetPort: 8080, protocol: 'UDP', nodePort: NODE_PORT },
      ],
    },
  },
  slice('IPv4', [
    ['10.1.1.5', 'n1'],
    ['10.1.2.5', 'n2'],
  ]),
  slice('IPv6', [['2001:db8:1:1::5', 'n1']]),
];

export function writeObjects() {
  writeFileSync(`${MANIFESTS}/.new`, OBJECTS.map((one) => JSON.stringify(one)).join('\n---\n'));
  renameSync(`${MANIFESTS}/.new`, `${MANIFESTS}/all.yaml`);
}
