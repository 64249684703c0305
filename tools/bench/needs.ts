// SPDX-License-Identifier: Apache-2.0
// What a run needs of this machine, and what each column needs besides. Without the former there is no run; without the
// latter a column is skipped, with the reason.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { FairleadError } from '../../src/errors.ts';
import { findCgroup2 } from '../../src/sys/cgroup.ts';
import { run, start } from '../../src/sys/exec.ts';
import { bpfObjectPath, packageRoot } from '../../src/sys/package.ts';
import { TRAFFIC_PROGRAM } from '../lab/columns/traffic.ts';
import { missingPrograms, type Variant } from './proxies/tools.ts';
import type { ColumnName } from './report/types.ts';

const PROGRAMS = ['ip', 'nsenter', 'setpriv'] as const;
const BTF_PATH = '/sys/kernel/btf/vmlinux';

/** Throws FairleadError, one line, if there can be no run at all. */
export async function requireNeeds(): Promise<void> {
  if (process.getuid?.() !== 0) {
    throw new FairleadError(
      'NO_PRIVILEGE',
      'the benchmark makes network namespaces and cgroups of its own: run it as root',
    );
  }
  if (findCgroup2() === undefined) {
    throw new FairleadError(
      'NO_CGROUP2',
      'the benchmark needs a cgroup v2 hierarchy: mount -t cgroup2 cgroup2 DIR',
    );
  }
  const missing = await missingPrograms(PROGRAMS);
  if (missing.length > 0) {
    const advice = 'install iproute2 and util-linux';
    throw new FairleadError('NO_PROGRAM', `the benchmark runs ${missing.join(', ')}: ${advice}`);
  }
  if (!existsSync(TRAFFIC_PROGRAM)) {
    const advice = 'the image does not have it: use the package, or npm run build in a clone';
    throw new FairleadError('NO_PROGRAM', `the benchmark runs ${TRAFFIC_PROGRAM}: ${advice}`);
  }
}

export interface Available {
  readonly columns: readonly ColumnName[];
  readonly skipped: Readonly<Partial<Record<ColumnName, string>>>;
  readonly kubeProxyPath: string | undefined;
}

/** @param kubeProxy the path that was given, if any */
export async function findColumns(
  wanted: readonly ColumnName[],
  { iptables, kubeProxy }: { readonly iptables: Variant; readonly kubeProxy: string | undefined },
  tell: (line: string) => void,
): Promise<Available> {
  const isAsked = wanted.some((name) => name.startsWith('kube-proxy'));
  const found: Found = isAsked ? await findKubeProxy(kubeProxy, tell) : {};
  const reasons = await Promise.all(wanted.map((name) => reasonWithout(name, iptables, found)));
  const skipped = Object.fromEntries(
    wanted.flatMap((name, at) => (reasons[at] === undefined ? [] : [[name, reasons[at]]])),
  );
  const columns = wanted.filter((_, at) => reasons[at] === undefined);
  return { columns, skipped, kubeProxyPath: found.path };
}

interface Found {
  readonly path?: string;
  readonly reason?: string;
}

async function reasonWithout(
  name: ColumnName,
  iptables: Variant,
  kubeProxy: Found,
): Promise<string | undefined> {
  if (name === 'none' || name === 'fairlead-userspace') return undefined;
  if (name === 'fairlead-bpf') {
    const missing = [bpfObjectPath('sock.bpf.o'), BTF_PATH].find((path) => !existsSync(path));
    return missing && `no ${missing}`;
  }
  if (name.startsWith('kube-proxy') && kubeProxy.path === undefined) return kubeProxy.reason;
  const tools = ['', '-save', '-restore'].map((suffix) => `iptables-${iptables}${suffix}`);
  const needed = name === 'kube-proxy-nftables' ? ['nft', ...tools] : tools;
  const missing = await missingPrograms(needed);
  const advice = name === 'kube-proxy-nftables' ? 'nftables and iptables' : 'iptables';
  return missing.length === 0 ? undefined : `no ${missing.join(', ')}: install ${advice}`;
}

/** The given one, that of $KUBEBUILDER_ASSETS, of PATH, or what scripts/cluster/build builds in a clone with Go. */
async function findKubeProxy(
  given: string | undefined,
  tell: (line: string) => void,
): Promise<Found> {
  if (given !== undefined) return existsSync(given) ? { path: given } : { reason: `no ${given}` };
  const assets = join(process.env['KUBEBUILDER_ASSETS'] ?? '', 'kube-proxy');
  if (process.env['KUBEBUILDER_ASSETS'] !== undefined && existsSync(assets))
    return { path: assets };
  const { code, stdout } = await run('sh', ['-c', 'command -v kube-proxy']);
  if (code === 0) return { path: stdout.trim() };
  const script = join(packageRoot(), 'scripts', 'cluster', 'build');
  const advice = 'give its path with --kube-proxy';
  if (!existsSync(script)) return { reason: `no kube-proxy in PATH: ${advice}` };
  const built = (await run(script, ['--path'])).stdout.trim();
  const path = join(built, 'kube-proxy');
  if (built !== '' && existsSync(path)) return { path };
  return buildKubeProxy(script, advice, tell);
}

async function buildKubeProxy(
  script: string,
  advice: string,
  tell: (line: string) => void,
): Promise<Found> {
  if ((await missingPrograms(['go'])).length > 0) {
    return { reason: `no Go, from which scripts/cluster/build builds kube-proxy once: ${advice}` };
  }
  const lines: string[] = [];
  const child = start(script, [], {
    onStdoutLine: (line) => void lines.push(line),
    onStderrLine: tell,
  });
  const code = await child.exited;
  const path = join(lines.at(-1) ?? '', 'kube-proxy');
  if (code === 0 && existsSync(path)) return { path };
  return { reason: `scripts/cluster/build failed with code ${code}: ${advice}` };
}
