// SPDX-License-Identifier: Apache-2.0
// The errors a user can act on, by stable code, each with the exit code of a command that dies of it.
// Pure. docs/errors.md lists the same codes (a test compares them).

/** 0 fine · 1 failed · 2 usage · 3 degraded or not synced · 4 not found · 5 missing privilege or kernel feature · 124 timed out. */
export const EXIT = {
  fine: 0,
  failed: 1,
  usage: 2,
  degraded: 3,
  notFound: 4,
  unsupported: 5,
  timedOut: 124,
} as const;

export const ERRORS = {
  NO_ADDON: EXIT.unsupported,
  NO_OBJECT: EXIT.unsupported,
  NO_PRIVILEGE: EXIT.unsupported,
  NO_CGROUP2: EXIT.unsupported,
  NOT_CGROUP2: EXIT.usage,
  NO_BTF: EXIT.unsupported,
  OLD_KERNEL: EXIT.unsupported,
  NO_BPFFS: EXIT.unsupported,
  NO_IPTABLES: EXIT.unsupported,
  NO_NFTABLES: EXIT.unsupported,
  NO_PROGRAM: EXIT.unsupported,
  IPTABLES_IN_USE: EXIT.failed,
  RESTORE_FAILED: EXIT.failed,
  OTHER_LAYOUT: EXIT.failed,
  OTHER_SIZES: EXIT.failed,
  OTHER_CGROUP: EXIT.failed,
  PROGRAM_REFUSED: EXIT.unsupported,
  ATTACH_FAILED: EXIT.failed,
  NO_SPACE: EXIT.failed,
  ALREADY_RUNNING: EXIT.failed,
  TAKE_OVER_FAILED: EXIT.failed,
  BPF_ROOT_IN_USE: EXIT.failed,
  RULES_IN_USE: EXIT.failed,
  SHADOW_DIFFERS: EXIT.failed,
  CLEANUP_FAILED: EXIT.failed,
  NOT_RUNNING: EXIT.degraded,
  BAD_OPTION: EXIT.usage,
  NO_MANIFESTS: EXIT.usage,
  BAD_KUBECONFIG: EXIT.usage,
  NO_API_SERVER: EXIT.usage,
  NOT_FOUND: EXIT.notFound,
  TIMED_OUT: EXIT.timedOut,
} as const;

export type ErrorCode = keyof typeof ERRORS;

export const isErrorCode = (text: string): text is ErrorCode => Object.hasOwn(ERRORS, text);

/** What failed, on which thing, why, and what to do, in one line. */
export class FairleadError extends Error {
  readonly code: ErrorCode;
  /** Longer evidence (a verifier log), for debug output only. */
  readonly detail: string | undefined;

  constructor(code: ErrorCode, message: string, detail?: string) {
    super(message);
    this.code = code;
    this.detail = detail;
  }

  get exitCode(): number {
    return ERRORS[this.code];
  }
}

/** True if a file system or its quota is full. */
export const isOutOfSpace = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && ['ENOSPC', 'EDQUOT'].includes(String(error.code));

export const noSpace = (runDir: string, error: unknown): FairleadError =>
  new FairleadError(
    'NO_SPACE',
    `the file system of --run-dir ${runDir} is full (${reasonOf(error)}): free some space or inodes there, or name a directory of another one`,
  );

/** The message of whatever was thrown. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
