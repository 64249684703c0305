// SPDX-License-Identifier: Apache-2.0
// Which Kubernetes the tests run, from the Go modules that its programs are built from.
import { readFileSync } from 'node:fs';

const MODULES = {
  /** API server, controller manager, kube-proxy, kubectl. */
  cluster: '../../integration/cluster/go/go.mod',
  /** Kubelet, scheduler. */
  kubelet: '../../integration/e2e/go/kubelet/go.mod',
} as const;

/** `1.37.2`. @throws if the module requires no Kubernetes */
export function kubernetesVersion(module: keyof typeof MODULES = 'cluster'): string {
  const text = readFileSync(new URL(MODULES[module], import.meta.url), 'utf8');
  const [, version] = /^\s*(?:require )?k8s\.io\/kubernetes v(\S+)/m.exec(text) ?? [];
  if (version === undefined) throw new Error(`${MODULES[module]} requires no k8s.io/kubernetes`);
  return version;
}
