// SPDX-License-Identifier: Apache-2.0
// API objects as a server would send them, with everything that a proxy does not read.

export interface ApiObject {
  readonly metadata: { readonly name: string; readonly namespace?: string } & Record<
    string,
    unknown
  >;
  readonly [section: string]: unknown;
}

const managedFields = [{ manager: 'kube-controller-manager', fieldsV1: { 'f:spec': {} } }];

export function service(name: string, port = 80, labels: Record<string, string> = {}): ApiObject {
  return {
    metadata: {
      name,
      namespace: 'default',
      labels,
      managedFields,
      annotations: {
        note: 'x',
        'fairlead.io/algorithm': 'weighted-random',
        'fairlead.io/table-size': '251',
      },
    },
    spec: {
      clusterIP: '10.96.0.10',
      clusterIPs: ['10.96.0.10'],
      ports: [{ port, protocol: 'TCP' }],
    },
    status: { loadBalancer: {}, conditions: [{ type: 'x' }] },
  };
}

export function slice(
  name: string,
  addresses: readonly string[] = ['10.1.0.1'],
  labels: Record<string, string> = { 'kubernetes.io/service-name': 'web' },
): ApiObject {
  return {
    metadata: {
      name,
      namespace: 'default',
      labels,
      managedFields,
      annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': '2026-01-01T00:00:00Z' },
    },
    addressType: 'IPv4',
    ports: [{ name: 'https', protocol: 'TCP', port: 6443 }],
    endpoints: addresses.map((address) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: 'node-1',
      zone: 'zone-a',
      targetRef: { kind: 'Pod', name: `pod-${address}`, uid: 'u' },
    })),
  };
}

export function node(name: string, beat = 0): ApiObject {
  return {
    metadata: { name, labels: { 'topology.kubernetes.io/zone': 'zone-a' }, managedFields },
    spec: { podCIDR: '10.1.0.0/24' },
    status: {
      addresses: [{ type: 'InternalIP', address: '192.0.2.1' }],
      conditions: [{ type: 'Ready', lastHeartbeatTime: beat }],
      images: [{ names: ['a'] }],
    },
  };
}
