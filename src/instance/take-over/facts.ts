// SPDX-License-Identifier: Apache-2.0
// By what an agent and its successor find out that they are one instance. Files are named by device and inode: the two may be in
// containers that mount the same folder in different places.
import { statSync } from 'node:fs';
import type { ErrorCode } from '../../errors.ts';

export interface InstanceFacts {
  readonly netns: string;
  /** undefined: it has none, as with the iptables engine. */
  readonly bpfRoot: string | undefined;
  readonly cgroup: string | undefined;
}

export interface InstanceFiles {
  readonly bpfRoot: string | undefined;
  readonly cgroupRoot: string | undefined;
}

export const factsOf = ({ bpfRoot, cgroupRoot }: InstanceFiles): InstanceFacts => ({
  netns: identityOf('/proc/self/ns/net') ?? 'unknown',
  bpfRoot: bpfRoot && identityOf(bpfRoot),
  cgroup: cgroupRoot && identityOf(cgroupRoot),
});

function identityOf(path: string): string | undefined {
  const facts = statSync(path, { bigint: true, throwIfNoEntry: false });
  return facts && `${facts.dev}:${facts.ino}`;
}

/** Why the running agent goes on. */
export interface Refusal {
  readonly code: ErrorCode;
  readonly reason: string;
}

/**
 * Why a successor with these facts cannot continue the agent with those of its own: it would fail when nobody serves any more.
 * Only what both have is compared: an engine needs no files of the other one.
 */
export function difference(
  own: InstanceFacts,
  { bpfRoot, cgroupRoot }: InstanceFiles,
  successor: InstanceFacts,
): Refusal | undefined {
  if (own.netns !== successor.netns) {
    const reason = 'it serves another network namespace';
    return { code: 'ALREADY_RUNNING', reason };
  }
  if (own.bpfRoot !== undefined && own.bpfRoot !== successor.bpfRoot) {
    const reason = `its --bpf-root is ${bpfRoot}, and yours is another one`;
    return { code: 'ALREADY_RUNNING', reason };
  }
  if (areOther(own.cgroup, successor.cgroup)) {
    const reason = `its --cgroup-root is ${cgroupRoot}, and yours is another one`;
    return { code: 'OTHER_CGROUP', reason };
  }
  return undefined;
}

const areOther = (one: string | undefined, other: string | undefined): boolean =>
  one !== undefined && other !== undefined && one !== other;
