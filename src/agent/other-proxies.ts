// SPDX-License-Identifier: Apache-2.0
// What else on this node serves Services, or depends on them: a kubelet and its pods, another service
// proxy, another fairlead. An agent with manifests of its own would take addresses from them. Looks at
// processes of the same network namespace, at netfilter, and at pins; what cannot be read is not there.
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { RunResult } from '../sys/exec.ts';
import { readMounts } from '../sys/mounts.ts';
import { openPinnedLink } from '../sys/native.ts';

/** Process names (comm, at most 15 characters), and what runs under them. */
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

/** One line for each, with its evidence: `kube-proxy (pid 712)`. @param root of the file system, for tests */
export async function findOtherProxies(
  root = '/',
  runProgram: Run = runBriefly,
): Promise<string[]> {
  const processes = findProcesses(root);
  const hasKubelet = processes.some((text) => text.startsWith('kubelet'));
  return [
    ...processes,
    ...(hasKubelet || !isInitialNamespace(root) ? [] : kubeletFiles(root)),
    ...(await findRules(runProgram)),
  ];
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

/** kube-proxy's rules outlive it, and serve without it. A tool that is not installed has no rules to show. */
async function findRules(runProgram: Run): Promise<string[]> {
  const [nft, iptables] = await Promise.all([
    runProgram('nft', ['list', 'tables']),
    runProgram('iptables-save', ['-t', 'nat']),
  ]);
  const hasTable = nft.code === 0 && /^table ip6? kube-proxy$/m.test(nft.stdout);
  const hasChain = iptables.code === 0 && /^:KUBE-SERVICES /m.test(iptables.stdout);
  return [
    ...(hasTable ? ['kube-proxy (nftables table kube-proxy)'] : []),
    ...(hasChain ? ['kube-proxy (iptables chain KUBE-SERVICES)'] : []),
  ];
}

/** Loaded when it is needed: an agent with an API server starts no program. */
const runBriefly: Run = async (program, args) => {
  const { run } = await import('../sys/exec.ts');
  return run(program, args, { timeoutMs: 5_000 });
};

/**
 * Other instances pinned on the same bpf file system whose hooks see the sockets of this one: they are on
 * the same cgroup or one above it. One below it cannot be told from its id alone.
 */
export function findOtherInstances(bpfRoot: string, cgroupRoot: string): string[] {
  const mount = readMounts()
    .filter(
      ({ fsType, mountPoint }) => fsType === 'bpf' && `${bpfRoot}/`.startsWith(`${mountPoint}/`),
    )
    .sort((a, b) => b.mountPoint.length - a.mountPoint.length)[0]?.mountPoint;
  if (mount === undefined) return [];
  const serving = cgroupIds(cgroupRoot);
  return namesOf(mount)
    .map((name) => join(mount, name))
    .filter((path) => path !== bpfRoot && links(path).some((link) => serving.has(cgroupOf(link))))
    .map((path) => `another fairlead (pins below ${path})`);
}

function links(bpfRoot: string): string[] {
  return namesOf(bpfRoot)
    .filter((name) => /^v\d+$/.test(name))
    .flatMap((version) => {
      const folder = join(bpfRoot, version, 'links');
      return namesOf(folder).map((name) => join(folder, name));
    });
}

function cgroupOf(path: string): bigint {
  try {
    const link = openPinnedLink(path);
    try {
      return link.cgroupId ?? 0n;
    } finally {
      link.close();
    }
  } catch {
    return 0n;
  }
}

/** Ids of a cgroup and of all above it. */
function cgroupIds(path: string): ReadonlySet<bigint> {
  const ids = new Set<bigint>();
  const device = statSync(path).dev;
  for (let at = path; ; at = dirname(at)) {
    const facts = statSync(at, { bigint: true });
    if (Number(facts.dev) !== device) return ids;
    ids.add(facts.ino);
    if (dirname(at) === at) return ids;
  }
}

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
