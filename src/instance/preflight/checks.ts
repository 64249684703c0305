// SPDX-License-Identifier: Apache-2.0
// Prerequisites of this machine, checked before anything is attached. Each missing one is an error of its own.
import { accessSync, constants, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import { FairleadError, isOutOfSpace, noSpace, reasonOf } from '../../errors.ts';
import { cgroup2Advice, namespaceName, readInitMounts } from '../../probe/cgroup-advice.ts';
import { holds } from '../../probe/forbidden.ts';
import { findCgroup2, isCgroup2 } from '../../sys/cgroup.ts';

/** Older kernels lack some of the hooks that the socket layer needs. */
const OLDEST_KERNEL = [5, 10] as const;

export interface CgroupRoot {
  readonly path: string;
}

export function checkKernel(
  kernelRelease = release(),
  hasBtf = existsSync('/sys/kernel/btf/vmlinux'),
): void {
  const [major = 0, minor = 0] = kernelRelease.split('.').map((part) => Number.parseInt(part, 10));
  const [oldestMajor, oldestMinor] = OLDEST_KERNEL;
  if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
    throw new FairleadError(
      'OLD_KERNEL',
      `Linux ${kernelRelease} is older than ${OLDEST_KERNEL.join('.')}, which the socket layer needs: boot a newer kernel`,
    );
  }
  if (!hasBtf) {
    throw new FairleadError(
      'NO_BTF',
      'this kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF): maps cannot be created with type information; boot a distribution kernel',
    );
  }
}

/** @param asked --cgroup-root; undefined = the root of the cgroup v2 hierarchy */
export function checkCgroupRoot(asked: string | undefined): CgroupRoot {
  const hierarchy = findCgroup2();
  if (hierarchy === undefined) {
    throw new FairleadError('NO_CGROUP2', cgroup2Advice(readInitMounts(), namespaceName()));
  }
  const path = asked ?? hierarchy;
  checkIsCgroup2(path);
  return { path };
}

/** Throws NOT_CGROUP2. */
export function checkIsCgroup2(path: string): void {
  if (isCgroup2(path)) return;
  const hierarchy = findCgroup2();
  const there = hierarchy === undefined ? 'has none' : `has one at ${hierarchy}`;
  throw new FairleadError(
    'NOT_CGROUP2',
    `--cgroup-root ${path} is not a directory of a cgroup v2 hierarchy: this machine ${there}`,
  );
}

export function checkRunDir(runDir: string): void {
  try {
    mkdirSync(runDir, { recursive: true });
    accessSync(runDir, constants.W_OK | constants.X_OK);
  } catch (error) {
    const isDenied =
      error instanceof Error && 'code' in error && ['EACCES', 'EPERM'].includes(String(error.code));
    if (isDenied) {
      throw new FairleadError(
        'NO_PRIVILEGE',
        `no permission to write to --run-dir ${runDir}: run as root, or use a writable directory`,
        reasonOf(error),
      );
    }
    if (isOutOfSpace(error)) throw noSpace(runDir, error);
    throw new FairleadError('BAD_OPTION', `--run-dir ${runDir} cannot be used: ${reasonOf(error)}`);
  }
}

/** Bits of capabilities(7). CAP_SYS_ADMIN implies the others (bpf_capable). */
const SYS_ADMIN = 21n;
const NEEDED = { CAP_BPF: 39n, CAP_NET_ADMIN: 12n, CAP_PERFMON: 38n } as const;

/**
 * Names the missing capability instead of only reporting that the kernel refused. Returns errors that no
 * capability explains unchanged.
 */
export function explainMissingCapabilities(
  error: unknown,
  processStatus = readFileSync('/proc/self/status', 'utf8'),
): unknown {
  if (!(error instanceof FairleadError)) return error;
  const held = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(processStatus)?.[1] ?? '0'}`);
  const holds = (bit: bigint): boolean => ((held >> bit) & 1n) === 1n;
  const missing = Object.entries(NEEDED).filter(([, bit]) => !holds(bit));
  const isExplained = error.code === 'NO_PRIVILEGE' || error.code === 'PROGRAM_REFUSED';
  if (!isExplained || missing.length === 0 || holds(SYS_ADMIN)) return error;
  return new FairleadError(
    error.code,
    `this process lacks ${listed(missing)}: run it as root, or with ${listed(Object.entries(NEEDED))}`,
    error.detail ?? error.message,
  );
}

/** `A, B and C` */
function listed(capabilities: readonly (readonly [name: string, bit: bigint])[]): string {
  const names = capabilities.map(([name]) => name);
  return [names.slice(0, -1).join(', '), names.at(-1)].filter((part) => part !== '').join(' and ');
}

/** Before anything is touched. Throws NO_PRIVILEGE. */
export function checkCapabilities(processStatus?: string): void {
  const refused = new FairleadError('NO_PRIVILEGE', 'the kernel refuses');
  const named = explainMissingCapabilities(refused, processStatus);
  if (named !== refused) throw named;
}

/** To others the kernel lists nothing, as if there were nothing to remove. Throws NO_PRIVILEGE. */
export function checkMayList(status = readFileSync('/proc/self/status', 'utf8')): void {
  if (holds({ status }, 'CAP_NET_ADMIN')) return;
  throw new FairleadError(
    'NO_PRIVILEGE',
    'this process lacks CAP_NET_ADMIN, without which nobody can tell what there is to remove: run it as root',
  );
}
