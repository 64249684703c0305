// SPDX-License-Identifier: Apache-2.0
// Why the kernel does not let this process use bpf(2), from what /proc and /sys say. Pure.
import { FEATURES } from './features.ts';

export interface ProcessFacts {
  /** Text of /proc/self/status. */
  readonly status: string;
  /** Of /sys/kernel/security/lockdown; undefined: there is none. */
  readonly lockdown: string | undefined;
}

/** Bits of capabilities(7). */
export const CAPABILITIES = {
  CAP_BPF: 39n,
  CAP_NET_ADMIN: 12n,
  CAP_PERFMON: 38n,
  CAP_SYS_ADMIN: 21n,
} as const;

export type CapabilityName = keyof typeof CAPABILITIES;

export function holds({ status }: Pick<ProcessFacts, 'status'>, name: CapabilityName): boolean {
  const held = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? '0'}`);
  return ((held >> CAPABILITIES[name]) & 1n) === 1n;
}

/** CAP_SYS_ADMIN implies CAP_BPF and CAP_PERFMON (bpf_capable, perfmon_capable). */
const mayUseBpf = (facts: Pick<ProcessFacts, 'status'>): boolean =>
  holds(facts, 'CAP_BPF') || holds(facts, 'CAP_SYS_ADMIN');

/** undefined: nothing that is known to forbid it explains this errno. */
export function forbiddenBy(errno: string, facts: ProcessFacts): string | undefined {
  if (errno === 'ENOSYS' && !isFiltered(facts)) {
    return 'the kernel was built without bpf(2) (CONFIG_BPF_SYSCALL)';
  }
  if (!['EPERM', 'EACCES', 'ENOSYS'].includes(errno)) return undefined;
  if (errno !== 'ENOSYS' && !mayUseBpf(facts)) {
    return 'this process has neither CAP_BPF nor CAP_SYS_ADMIN';
  }
  if (isFiltered(facts)) return `a seccomp filter of this process answers bpf(2) with ${errno}`;
  if (/\[confidentiality\]/.test(facts.lockdown ?? '')) {
    return 'the kernel is locked down (confidentiality)';
  }
  return undefined;
}

/** SECCOMP_MODE_FILTER. */
const isFiltered = ({ status }: ProcessFacts): boolean => /^Seccomp:\s*2$/m.test(status);

/** What libbpf says when even its smallest program is refused: it is not about a program of ours. */
const REFUSES_ALL = /Couldn't load trivial BPF program/;

/** The cause with what would change it, if the text of an error shows that bpf(2) itself is forbidden. */
export function refusalReason(text: string, facts: ProcessFacts): string | undefined {
  const [errno] = /\b(?:EPERM|EACCES|ENOSYS)\b/.exec(text) ?? [];
  if (errno === undefined || !REFUSES_ALL.test(text)) return undefined;
  const cause = forbiddenBy(errno, facts);
  return cause === undefined ? undefined : `${cause}: ${FEATURES['bpf()'].remedy}`;
}
