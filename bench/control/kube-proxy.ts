// SPDX-License-Identifier: Apache-2.0
// Starts the real kube-proxy on its node of a site. Unlike test/cluster/kube-proxy.ts, nothing but
// kube-proxy runs in its cgroup, and nobody asks it for its metrics meanwhile.
import { mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { ProxyName } from './figures.ts';
import { proxyPlace, type RunningProxy } from './proxy.ts';
import type { Site } from './site.ts';

const LEGACY_TOOLS = '/usr/sbin/xtables-legacy-multi';

export function startKubeProxy(site: Site, mode: Exclude<ProxyName, 'fairlead'>): RunningProxy {
  const { plane } = site;
  const kubeconfig = plane.kubeconfig({ identity: 'proxy', from: 'node' });
  const path = `${makeToolFolder(plane.directory)}:${process.env['PATH'] ?? ''}`;
  const flags = [
    ...[`--kubeconfig=${kubeconfig}`, `--hostname-override=${site.nodeOf(mode).name}`],
    `--proxy-mode=${mode}`,
    // These belong to the machine, not to the namespace: 0 leaves them alone.
    ...['--conntrack-max-per-core=0', '--conntrack-min=0', '--oom-score-adj=0'],
    '--conntrack-tcp-timeout-established=0s',
    '--conntrack-tcp-timeout-close-wait=0s',
  ];
  const argv = ['env', `PATH=${path}`, plane.binaries.kubeProxy, ...flags];
  const { child: _, ...proxy } = proxyPlace(site, mode).start(argv);
  const none = async (): Promise<undefined> => undefined;
  return { ...proxy, loadingStallMs: none, takeStallMs: none };
}

/** For the front of PATH: `iptables` and its kin are the legacy tools, over which kube-proxy is faster. */
function makeToolFolder(directory: string): string {
  const folder = join(directory, 'legacy-tools');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const names = ['iptables', 'ip6tables'].flatMap((tool) =>
    ['', '-save', '-restore'].map((suffix) => tool + suffix),
  );
  for (const name of names) symlinkSync(LEGACY_TOOLS, join(folder, name));
  return folder;
}
