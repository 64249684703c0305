// SPDX-License-Identifier: Apache-2.0
// Tells a kernel that has no hooks for packet programs from devices that fail for reasons of their own. Pure.
import type { DeviceView } from '../../snapshot.ts';

/**
 * Why no device takes programs: the kernel has neither tcx nor clsact, as the answer of every device that should have them
 * says. undefined: one takes them, or fails for a reason of its own.
 */
export function reasonForNoHooks(
  devices: readonly Pick<DeviceView, 'isAttached' | 'isFailed' | 'reason'>[],
): string | undefined {
  const failed = devices.filter(({ isFailed }) => isFailed);
  const isLacking = failed.every(({ reason }) => NO_SUCH_KIND.test(reason));
  const hasNone = failed.length > 0 && !devices.some(({ isAttached }) => isAttached);
  return hasNone && isLacking ? failed[0]?.reason : undefined;
}

/** Of the qdisc, or of the filter. */
const NO_SUCH_KIND = /\b(ENOENT|EOPNOTSUPP)\b/;
