// SPDX-License-Identifier: Apache-2.0
// Finds what else on this node serves Services or depends on them: a kubelet, another service proxy, another
// fairlead. An agent that runs on manifests would redirect their addresses. Reads the processes of the same
// network namespace, netfilter rules and pins; what cannot be read is treated as absent.
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { RunResult } from '../../sys/exec.ts';
import { readMounts } from '../../sys/mounts.ts';
import { openPinnedLink } from '../../sys/native.ts';

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

/** One text for each, with the evidence: `kube-proxy (pid 712)`. @param root of the file system, for tests */
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

/** kube-proxy's rules remain in effect after it stops. A tool that is not installed lists no rules. */
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

/** Imported on demand: an agent of an API server runs no programs. */
const runBriefly: Run = async (program, args) => {
  const { run } = await import('../../sys/exec.ts');
  return run(program, args, { timeoutMs: 5_000 });
};

/**
 * Other instances pinned on the same bpf file system whose hooks cover the sockets of this one: they are
 * attached to the same cgroup or to an ancestor. A descendant cannot be recognized by its id alone.
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

/** Where an instance pins its links: docs/adr/0004. */
function links(bpfRoot: string): string[] {
  const folder = join(bpfRoot, 'links');
  return namesOf(folder).map((name) => join(folder, name));
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

/** Ids of a cgroup and of its ancestors. */
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
