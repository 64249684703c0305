// SPDX-License-Identifier: Apache-2.0
// Starts the real kube-proxy on its node of a site. Unlike test/integration/cluster/kube-proxy/kube-proxy.ts, nothing but
// kube-proxy runs in its cgroup, and nobody asks it for its metrics meanwhile.
import {
  LEAVE_MACHINE_ALONE,
  makeToolFolder,
} from '../../../test/integration/cluster/kube-proxy/kube-proxy.ts';
import type { ProxyName } from '../report/figures.ts';
import type { Site } from '../site.ts';
import { proxySandbox, type RunningProxy } from './proxy.ts';

export function startKubeProxy(site: Site, mode: Exclude<ProxyName, 'fairlead'>): RunningProxy {
  const { plane } = site;
  const kubeconfig = plane.kubeconfig({ identity: 'proxy', from: 'node' });
  // Legacy tools, with which kube-proxy is faster.
  const path = `${makeToolFolder(plane, 'legacy')}:${process.env['PATH'] ?? ''}`;
  const flags = [
    ...[`--kubeconfig=${kubeconfig}`, `--hostname-override=${site.nodeOf(mode).name}`],
    `--proxy-mode=${mode}`,
    ...LEAVE_MACHINE_ALONE,
  ];
  const argv = ['env', `PATH=${path}`, plane.binaries.kubeProxy, ...flags];
  const { child: _, ...proxy } = proxySandbox(site, mode).start(argv);
  const none = async (): Promise<undefined> => undefined;
  return { ...proxy, loadingStallMs: none, takeStallMs: none };
}
