// SPDX-License-Identifier: Apache-2.0
// Finds what else on this node serves Services or depends on them: a kubelet, another service proxy. An agent that
// runs on manifests would redirect their addresses. Reads the processes of the same network namespace and netfilter
// rules, and asks kube-proxy's port; what cannot be read is treated as absent.
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { FAMILIES } from '../../model/types.ts';
import type { RunResult } from '../../sys/exec.ts';
import { hasLegacyTable, mayHaveChain, mayHaveTable } from '../../sys/netfilter.ts';

/** Process names (comm, at most 15 characters) and the components they stand for. */
const PROGRAMS: Readonly<Record<string, string>> = {
  kubelet: 'kubelet',
  kubelite: 'kubelet and kube-proxy (MicroK8s)',
  k3s: 'kubelet and kube-proxy (k3s)',
  'k3s-server': 'kubelet and kube-proxy (k3s)',
  'k3s-agent': 'kubelet and kube-proxy (k3s)',
  'kube-proxy': 'kube-proxy',
  'kube-router': 'kube-router',
  'cilium-agent': 'Cilium',
};

/** kubeadm and most installers leave one of these on every node. */
const KUBELET_FILES = ['var/lib/kubelet/config.yaml', 'var/lib/kubelet/pki'] as const;

type Run = (program: string, args: readonly string[]) => Promise<RunResult>;
/** The body of the response; '' = none. */
export type Ask = (url: string) => Promise<string>;

/** The default of kube-proxy's metricsBindAddress. */
const PROXY_MODE_URL = 'http://127.0.0.1:10249/proxyMode';
export const METRICS_URL = 'http://127.0.0.1:10249/metrics';
const MODES = ['iptables', 'nftables', 'ipvs'];

interface Asked {
  /** What a kube-proxy may have left is looked for with programs. */
  readonly readsRules: boolean;
}

/** Cheap, because each start asks: without programs, which take milliseconds each, and 8 MiB to run them. */
export const mayHaveProxyRules = (): boolean =>
  FAMILIES.some(
    (family) =>
      mayHaveChain(family, 'nat', 'KUBE-SERVICES') ||
      mayHaveTable(family, 'kube-proxy') ||
      hasLegacyTable(family, 'nat'),
  );

/** One text for each, with the evidence: `kube-proxy (pid 712)`. @param root of the file system, for tests */
export async function findOtherProxies(
  { readsRules }: Asked,
  root = '/',
  runProgram: Run = runBriefly,
): Promise<string[]> {
  const processes = findProcesses(root);
  const hasKubelet = processes.some((text) => text.startsWith('kubelet'));
  return [
    ...processes,
    ...(hasKubelet || !isInitialNamespace(root) ? [] : kubeletFiles(root)),
    ...(readsRules ? await findRules(runProgram) : []),
  ];
}

/**
 * The evidence that kube-proxy serves this node, too. In a container neither its process nor the tools that list
 * its rules may be visible; its port is. Ask before this agent listens there itself.
 */
export async function findKubeProxy(
  { readsRules }: Asked,
  root = '/',
  runProgram: Run = runBriefly,
  ask: Ask = askBriefly,
): Promise<string[]> {
  const [rules, mode] = await Promise.all([
    readsRules ? findRules(runProgram) : [],
    ask(PROXY_MODE_URL),
  ]);
  const hasAnswered = MODES.includes(mode.trim());
  return [
    ...findProcesses(root).filter((text) => text.startsWith('kube-proxy')),
    ...(hasAnswered ? [`kube-proxy (${PROXY_MODE_URL} responds with ${mode.trim()})`] : []),
    ...rules,
  ];
}

/**
 * A kube-proxy that runs now, in this network namespace. In a container its process may not be visible, and others have
 * it built in: then its port is asked, at which fairlead answers as well, but with metrics of its own.
 */
export async function findServingKubeProxy(root = '/', ask: Ask = askBriefly): Promise<string[]> {
  const processes = findProcesses(root).filter((text) => text.startsWith('kube-proxy '));
  if (processes.length > 0) return processes;
  const mode = (await ask(PROXY_MODE_URL)).trim();
  if (!MODES.includes(mode)) return [];
  const metrics = await ask(METRICS_URL);
  if (metrics === '' || metrics.includes('\nfairlead_')) return [];
  return [`kube-proxy (${PROXY_MODE_URL} responds with ${mode})`];
}

function findProcesses(root: string): string[] {
  const namespace = linkOf(join(root, 'proc/self/ns/net'));
  return namesOf(join(root, 'proc'))
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      const what = PROGRAMS[textOf(join(root, 'proc', pid, 'comm')).trim()];
      const isHere = what !== undefined && linkOf(join(root, 'proc', pid, 'ns/net')) === namespace;
      return isHere ? [`${what} (pid ${pid})`] : [];
    });
}

function kubeletFiles(root: string): string[] {
  const file = KUBELET_FILES.find((path) => existsSync(join(root, path)));
  return file === undefined ? [] : [`kubelet (/${file})`];
}

/** True on the host, false in a network namespace of a pod, a container or a test. */
export function isInitialNamespace(root = '/'): boolean {
  const own = linkOf(join(root, 'proc/self/ns/net'));
  return own !== undefined && own === linkOf(join(root, 'proc/1/ns/net'));
}

/**
 * kube-proxy may have used another iptables than the node has by default. Without `-t`, which would load the module of
 * the table, they list those that there are.
 */
const SAVE_PROGRAMS = [
  'iptables-save',
  ...['iptables-nft', 'iptables-legacy', 'ip6tables-nft', 'ip6tables-legacy'].map(
    (name) => `${name}-save`,
  ),
];

/** kube-proxy's rules remain in effect after it stops. A tool that is not installed lists no rules. */
async function findRules(runProgram: Run): Promise<string[]> {
  const [nft, ...saved] = await Promise.all([
    runProgram('nft', ['list', 'tables']),
    ...SAVE_PROGRAMS.map((program) => runProgram(program, [])),
  ]);
  const hasTable = nft.code === 0 && /^table ip6? kube-proxy$/m.test(nft.stdout);
  const hasChain = saved.some(({ code, stdout }) => code === 0 && isKubeProxys(stdout));
  return [
    ...(hasTable ? ['kube-proxy (nftables table kube-proxy)'] : []),
    ...(hasChain ? ['kube-proxy (iptables chain KUBE-SERVICES)'] : []),
  ];
}

/** Rules of fairlead's own iptables engine have the same names, and one more. */
const isKubeProxys = (saved: string): boolean =>
  /^:KUBE-SERVICES /m.test(saved) && !/^:KUBE-CLUSTER-IPS /m.test(saved);

const ASK_TIMEOUT_MS = 1_000;

export const askBriefly: Ask = (url) =>
  new Promise((resolve) => {
    let body = '';
    const request = get(url, { timeout: ASK_TIMEOUT_MS, agent: false }, (response) => {
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      response.once('close', () => resolve(body));
    });
    request.once('timeout', () => request.destroy());
    request.once('error', () => resolve(''));
  });

/** Imported on demand: few agents need it. */
const runBriefly: Run = async (program, args) => {
  const { run } = await import('../../sys/exec.ts');
  return run(program, args, { timeoutMs: 5_000 });
};

function namesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}
