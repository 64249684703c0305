// SPDX-License-Identifier: Apache-2.0
// The chains of a Service port, whose names each engine of rules makes in its own way.

export interface ServiceChains {
  /** Backends of all nodes: KUBE-SVC-, service-. */
  readonly cluster: string;
  /** Backends of this node: KUBE-SVL-, local-. */
  readonly local: string;
  /** What reaches it at addresses for clients from outside: KUBE-EXT-, external-. */
  readonly external: string;
  /** Load balancer addresses with source ranges: KUBE-FW-, firewall-. */
  readonly firewall: string;
}
