// SPDX-License-Identifier: Apache-2.0
// Which Kubernetes the tests run, from the Go modules that its programs are built from.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../../src/sys/package.ts';

const MODULES = {
  /** API server, controller manager, kube-proxy, kubectl. */
  cluster: 'test/integration/cluster/go/go.mod',
  /** Kubelet, scheduler. */
  kubelet: 'test/integration/e2e/go/kubelet/go.mod',
} as const;

/** `1.37.2`. @throws if the module requires no Kubernetes */
export function kubernetesVersion(module: keyof typeof MODULES = 'cluster'): string {
  const text = readFileSync(join(packageRoot(), MODULES[module]), 'utf8');
  const [, version] = /^\s*(?:require )?k8s\.io\/kubernetes v(\S+)/m.exec(text) ?? [];
  if (version === undefined) throw new Error(`${MODULES[module]} requires no k8s.io/kubernetes`);
  return version;
}
