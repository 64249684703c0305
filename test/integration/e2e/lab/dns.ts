// SPDX-License-Identifier: Apache-2.0
// The cluster's DNS as kubeadm installs it: CoreDNS behind Service kube-dns. Pure.

import { DNS_ADDRESS } from '../nodes/settings.ts';
import { SLOW_PROBE } from './pods.ts';

const NAMESPACE = 'kube-system';
const labels = { 'k8s-app': 'kube-dns' };
const RIGHTS = 'system:coredns';

const COREFILE = `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    cache 30
    reload
    loadbalance
}
`;

const container = {
  name: 'coredns',
  image: 'coredns:1',
  imagePullPolicy: 'Never',
  args: ['-conf', '/etc/coredns/Corefile'],
  volumeMounts: [{ name: 'config-volume', mountPath: '/etc/coredns', readOnly: true }],
  livenessProbe: {
    httpGet: { path: '/health', port: 8080 },
    ...SLOW_PROBE,
    initialDelaySeconds: 60,
  },
  readinessProbe: { httpGet: { path: '/ready', port: 8181 }, periodSeconds: 1, ...SLOW_PROBE },
  resources: { requests: { cpu: '60m' } },
  securityContext: {
    allowPrivilegeEscalation: false,
    capabilities: { add: ['NET_BIND_SERVICE'], drop: ['ALL'] },
    readOnlyRootFilesystem: true,
  },
};

const podSpec = {
  priorityClassName: 'system-cluster-critical',
  serviceAccountName: 'coredns',
  dnsPolicy: 'Default',
  tolerations: [{ key: 'CriticalAddonsOnly', operator: 'Exists' }],
  topologySpreadConstraints: [
    {
      maxSkew: 1,
      topologyKey: 'kubernetes.io/hostname',
      whenUnsatisfiable: 'ScheduleAnyway',
      labelSelector: { matchLabels: labels },
    },
  ],
  containers: [container],
  volumes: [{ name: 'config-volume', configMap: { name: 'coredns' } }],
};

const named = (name: string): object => ({ name, namespace: NAMESPACE });

export const DNS: readonly object[] = [
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: named('coredns') },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: RIGHTS },
    rules: [
      {
        apiGroups: [''],
        resources: ['endpoints', 'services', 'pods', 'namespaces'],
        verbs: ['list', 'watch'],
      },
      { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['list', 'watch'] },
    ],
  },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: RIGHTS },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: RIGHTS },
    subjects: [{ kind: 'ServiceAccount', ...named('coredns') }],
  },
  { apiVersion: 'v1', kind: 'ConfigMap', metadata: named('coredns'), data: { Corefile: COREFILE } },
  {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { ...named('coredns'), labels },
    spec: {
      replicas: 2,
      strategy: { rollingUpdate: { maxUnavailable: 1 } },
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: podSpec },
    },
  },
  {
    // Both of its Pods may be on one node, which is drained.
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: named('coredns'),
    spec: { minAvailable: 1, selector: { matchLabels: labels } },
  },
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { ...named('kube-dns'), labels },
    spec: {
      selector: labels,
      clusterIP: DNS_ADDRESS,
      ports: [
        { name: 'dns', port: 53, protocol: 'UDP', targetPort: 53 },
        { name: 'dns-tcp', port: 53, protocol: 'TCP', targetPort: 53 },
      ],
    },
  },
];
