// SPDX-License-Identifier: Apache-2.0
// What kubeadm makes for kube-proxy (cmd/kubeadm/app/phases/addons/proxy/manifests.go): the ConfigMap
// with both its files, the ServiceAccount with its role, and the DaemonSet.
import { dump } from 'js-yaml';
import { kubernetesVersion } from '../programs/kubernetes.ts';
import { kubeadmConfig } from './config.ts';

const metadata = { name: 'kube-proxy', namespace: 'kube-system' };
const POD_RANGES = '10.1.0.0/16,fd00:10::/32';
const ACCOUNT_FILES = '/var/run/secrets/kubernetes.io/serviceaccount';

const kubeconfig = (server: string): object => ({
  apiVersion: 'v1',
  kind: 'Config',
  clusters: [
    { name: 'default', cluster: { 'certificate-authority': `${ACCOUNT_FILES}/ca.crt`, server } },
  ],
  contexts: [
    { name: 'default', context: { cluster: 'default', namespace: 'default', user: 'default' } },
  ],
  'current-context': 'default',
  users: [{ name: 'default', user: { tokenFile: `${ACCOUNT_FILES}/token` } }],
});

/** @param server the control plane endpoint */
export const kubeadmObjects = (server: string): string =>
  [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'kubeadm:node-proxier' },
      roleRef: {
        apiGroup: 'rbac.authorization.k8s.io',
        kind: 'ClusterRole',
        name: 'system:node-proxier',
      },
      subjects: [{ kind: 'ServiceAccount', ...metadata }],
    },
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { ...metadata, labels: { app: 'kube-proxy' } },
      data: {
        'kubeconfig.conf': dump(kubeconfig(server)),
        'config.conf': kubeadmConfig('/var/lib/kube-proxy/kubeconfig.conf', POD_RANGES),
      },
    },
  ]
    .map((object) => dump(object))
    .concat(DAEMON_SET)
    .join('---\n');

const DAEMON_SET = `apiVersion: apps/v1
kind: DaemonSet
metadata:
  labels:
    k8s-app: kube-proxy
  name: kube-proxy
  namespace: kube-system
spec:
  selector:
    matchLabels:
      k8s-app: kube-proxy
  updateStrategy:
    type: RollingUpdate
  template:
    metadata:
      labels:
        k8s-app: kube-proxy
    spec:
      priorityClassName: system-node-critical
      containers:
      - name: kube-proxy
        image: registry.k8s.io/kube-proxy:v${kubernetesVersion()}
        imagePullPolicy: IfNotPresent
        command:
        - /usr/local/bin/kube-proxy
        - --config=/var/lib/kube-proxy/config.conf
        - --hostname-override=$(NODE_NAME)
        securityContext:
          privileged: true
        volumeMounts:
        - mountPath: /var/lib/kube-proxy
          name: kube-proxy
        - mountPath: /run/xtables.lock
          name: xtables-lock
          readOnly: false
        - mountPath: /lib/modules
          name: lib-modules
          readOnly: true
        env:
          - name: NODE_NAME
            valueFrom:
              fieldRef:
                fieldPath: spec.nodeName
      hostNetwork: true
      serviceAccountName: kube-proxy
      volumes:
      - name: kube-proxy
        configMap:
          name: kube-proxy
      - name: xtables-lock
        hostPath:
          path: /run/xtables.lock
          type: FileOrCreate
      - name: lib-modules
        hostPath:
          path: /lib/modules
      tolerations:
      - operator: Exists
      nodeSelector:
        kubernetes.io/os: linux
`;
