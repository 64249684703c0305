// SPDX-License-Identifier: Apache-2.0
// What the kernel or the addon says about a layer that could not be attached, and what to do about it.
import { FairleadError, reasonOf } from '../../errors.ts';
import type { Layer } from './layer.ts';

export const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : '';

export function asFairleadError(
  error: unknown,
  { layer, bpfRoot }: { readonly layer: Layer; readonly bpfRoot: string },
): unknown {
  if (error instanceof FairleadError) return error;
  const reason = reasonOf(error);
  switch (codeOf(error)) {
    case 'EPERM':
    case 'EACCES':
      return new FairleadError(
        'NO_PRIVILEGE',
        `the kernel refused (${reason}): run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON`,
      );
    case 'INCOMPATIBLE':
      return new FairleadError(
        'OTHER_SIZES',
        `the maps pinned below ${bpfRoot} do not fit (${reason}): start with the same sizes and the same version of fairlead, or run \`fairlead cleanup --bpf-root ${bpfRoot}\` first`,
      );
    case 'VERIFIER': {
      const log = error instanceof Error && 'log' in error ? String(error.log) : undefined;
      return new FairleadError('PROGRAM_REFUSED', `the kernel refused a program: ${reason}`, log);
    }
    default:
      return new FairleadError(
        'ATTACH_FAILED',
        `the ${layer.name} could not be attached: ${reason}`,
      );
  }
}
