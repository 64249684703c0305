// SPDX-License-Identifier: Apache-2.0
// Starts the proxy of a column with the defaults of its project, and removes what it programmed. All get the same objects
// from the same kind of API server.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../../src/sys/exec.ts';
import { isBpffs } from '../../../src/sys/mounts.ts';
import { CLUSTER_CIDR } from '../../lab/columns/network.ts';
import type { ColumnSite } from '../../lab/columns/site.ts';
import { mountBpffs } from '../../lab/mounting.ts';
import { compiledPath, IMAGE_ENVIRONMENT, insideSandbox, type Sandbox } from '../../lab/sandbox.ts';
import type { ColumnName } from '../report/types.ts';
import { NODE } from '../site/objects.ts';
import { type ProxyProcess, startProcess } from './process.ts';
import { leaveKubeletChain, makeToolFolder, removeRules, type Variant } from './tools.ts';

export interface ProxySettings {
  /** undefined if no column needs it. */
  readonly kubeProxyPath: string | undefined;
  readonly iptables: Variant;
}

export interface ColumnProxy {
  /** Stops what runs, removes what is programmed, and starts anew. */
  start(kubeconfig: string): Promise<ProxyProcess>;
}

type Site = ColumnSite<ColumnName>;

/** undefined: the column has no proxy. */
export function proxyOf(site: Site, settings: ProxySettings): ColumnProxy | undefined {
  switch (site.name) {
    case 'none':
      return undefined;
    case 'fairlead-bpf':
      return fairlead(site, 'bpf', settings);
    case 'fairlead-iptables':
      return fairlead(site, 'iptables', settings);
    case 'fairlead-nftables':
      return fairlead(site, 'nftables', settings);
    case 'fairlead-userspace':
      return fairlead(site, 'userspace', settings);
    case 'kube-proxy-iptables':
      return kubeProxy(site, 'iptables', settings);
    case 'kube-proxy-nftables':
      return kubeProxy(site, 'nftables', settings);
  }
}

/** Rules belong to a namespace, but the lock of their tools would be the machine's. */
const lockOf = ({ directory }: Site): string =>
  `XTABLES_LOCKFILE=${join(directory, 'xtables.lock')}`;

function fairlead(
  site: Site,
  engine: 'bpf' | 'iptables' | 'nftables' | 'userspace',
  { iptables }: ProxySettings,
): ColumnProxy {
  const node = site.tools(NODE);
  const bpffs = join(site.directory, 'bpf');
  const paths = ['--bpf-root', join(bpffs, NODE), '--run-dir', join(site.directory, 'run')];
  // Run as it is installed: its first line has flags for Node.
  const program = [compiledPath('main.js')];
  const lock = lockOf(site);
  return {
    start: async (kubeconfig) => {
      await ensureBpffs(bpffs);
      await must(node, ['env', lock, ...program, 'cleanup', ...paths]);
      if (engine === 'iptables' || engine === 'nftables') await removeRules(node, lock);
      if (engine === 'iptables') await leaveKubeletChain(node, iptables, lock);
      const argv = [
        ...['env', ...IMAGE_ENVIRONMENT, lock, ...program],
        ...['run', '--engine', engine, '--kubeconfig', kubeconfig],
        ...['--hostname-override', NODE, '--cgroup-root', site.cgroupOf(NODE), ...paths],
        ...['--cluster-cidr', CLUSTER_CIDR],
        ...['--healthz-bind-address=127.0.0.1:10256', '--metrics-bind-address=127.0.0.1:10249'],
      ];
      return startProcess(node, argv);
    },
  };
}

async function ensureBpffs(path: string): Promise<void> {
  mkdirSync(path, { recursive: true });
  if (!isBpffs(path)) await mountBpffs(path);
}

async function must(sandbox: Sandbox, argv: readonly string[]): Promise<void> {
  const [shell = 'sh', ...args] = insideSandbox(sandbox, argv);
  const { code, stderr } = await run(shell, args, { timeoutMs: 120_000 });
  if (code !== 0) throw new Error(`${argv.slice(2).join(' ')}: code ${code}: ${stderr.trim()}`);
}

function kubeProxy(
  site: Site,
  mode: 'iptables' | 'nftables',
  { kubeProxyPath = 'kube-proxy', iptables }: ProxySettings,
): ColumnProxy {
  const node = site.tools(NODE);
  const lock = lockOf(site);
  return {
    start: async (kubeconfig) => {
      await removeRules(node, lock);
      const config = join(site.directory, 'kube-proxy.json');
      writeFileSync(config, JSON.stringify(kubeProxyConfig(mode, kubeconfig)));
      const tools = await makeToolFolder(site.directory, iptables);
      const path = `PATH=${tools}:${process.env['PATH'] ?? ''}`;
      return startProcess(node, ['env', path, lock, kubeProxyPath, '--config', config]);
    },
  };
}

const kubeProxyConfig = (mode: string, kubeconfig: string): object => ({
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode,
  hostnameOverride: NODE,
  // The stub speaks JSON, to fairlead as to kube-proxy.
  clientConnection: { kubeconfig, contentType: 'application/json' },
  clusterCIDR: CLUSTER_CIDR,
  detectLocalMode: 'ClusterCIDR',
  healthzBindAddress: '127.0.0.1:10256',
  metricsBindAddress: '127.0.0.1:10249',
  // These settings belong to the machine: 0 leaves them unchanged.
  conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  oomScoreAdj: 0,
});
