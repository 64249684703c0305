// SPDX-License-Identifier: Apache-2.0
// Starts the real kube-proxy on its node of a site. Unlike test/integration/cluster/kube-proxy/kube-proxy.ts, nothing but
// kube-proxy runs in its cgroup, and nobody asks it for its metrics meanwhile.
import {
  LEAVE_MACHINE_ALONE,
  makeToolFolder,
} from '../../../test/integration/cluster/kube-proxy/kube-proxy.ts';
import type { Seat, Site } from '../site.ts';
import { ownLock, proxySandbox, type RunningProxy } from './proxy.ts';

export type Mode = 'iptables' | 'nftables';

export function startKubeProxy(site: Site, mode: Mode, round: number): RunningProxy {
  const { plane } = site;
  const seat: Seat = { proxy: mode, round };
  const kubeconfig = plane.kubeconfig({ identity: 'proxy', from: 'node' });
  const path = `${makeToolFolder(plane, site.variant)}:${process.env['PATH'] ?? ''}`;
  const flags = [
    ...[`--kubeconfig=${kubeconfig}`, `--hostname-override=${site.nodeOf(seat).name}`],
    `--proxy-mode=${mode}`,
    ...LEAVE_MACHINE_ALONE,
  ];
  const argv = ['env', `PATH=${path}`, ownLock(site, seat), plane.binaries.kubeProxy, ...flags];
  const { child: _, ...proxy } = proxySandbox(site, seat).start(argv);
  const none = async (): Promise<undefined> => undefined;
  return { ...proxy, loadingStallMs: none, takeStallMs: none };
}
