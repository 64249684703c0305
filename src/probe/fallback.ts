// SPDX-License-Identifier: Apache-2.0
// Whether --engine auto may leave to iptables what eBPF did not open. Pure.
import { type ErrorCode, FairleadError } from '../errors.ts';

/** What the kernel, the node or this process lacks. Other errors are about the settings, or another agent. */
const LACKING: readonly ErrorCode[] = [
  'NO_PRIVILEGE',
  'NO_CGROUP2',
  'NO_BTF',
  'OLD_KERNEL',
  'PROGRAM_REFUSED',
  'ATTACH_FAILED',
];

/** Their messages do not name the cause: a probe finds it. */
const UNEXPLAINED: readonly ErrorCode[] = ['NO_PRIVILEGE', 'PROGRAM_REFUSED', 'ATTACH_FAILED'];

export interface FallbackFacts {
  /** False with --devices none: packets are somebody else's. */
  readonly servesPackets: boolean;
  /** Programs of an earlier agent are attached: they would go on with what they have. */
  readonly isAttached: boolean;
  /** CAP_NET_ADMIN: without it rules cannot be written either. */
  readonly mayWriteRules: boolean;
}

export const mayFallBack = (
  error: unknown,
  { servesPackets, isAttached, mayWriteRules }: FallbackFacts,
): error is FairleadError =>
  error instanceof FairleadError &&
  LACKING.includes(error.code) &&
  servesPackets &&
  mayWriteRules &&
  !isAttached;

export const isUnexplained = (error: unknown): error is FairleadError =>
  error instanceof FairleadError && UNEXPLAINED.includes(error.code);
