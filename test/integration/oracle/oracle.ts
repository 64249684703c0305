// SPDX-License-Identifier: Apache-2.0
// The real kube-proxy for the tests of this folder, which are skipped without it.
import { kubeProxy } from '../../support/fixture/proxies/kube-proxy.ts';
import type { StartProxy } from '../../support/fixture/proxies/proxy.ts';
import { prepareKubeProxy } from '../cluster/kube-proxy/kube-proxy.ts';
import { prepareCluster } from '../cluster/programs/binaries.ts';

export const RULE_MODES = ['iptables', 'nftables'] as const;

const readiness = await prepareCluster();
const missing = readiness.isReady ? await prepareKubeProxy() : readiness.reason;
export const isMissing = missing !== undefined;

export const oracle =
  (mode: (typeof RULE_MODES)[number], fields?: object): StartProxy =>
  (...args) => {
    if (!readiness.isReady) throw new Error(readiness.reason);
    return kubeProxy(readiness.binaries.kubeProxy, mode, fields)(...args);
  };
