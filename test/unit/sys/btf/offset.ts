// SPDX-License-Identifier: Apache-2.0
// Looks into a table of BTF that is in memory.
import { lookUp, type Member } from '../../../../src/sys/btf/member.ts';

/** In bits. As sysfs: a page at most for each read. */
export const offsetIn = (bytes: Uint8Array, member: Member): number | undefined =>
  lookUp(
    (into, position) => {
      const part = bytes.subarray(position, position + Math.min(into.length, 4096));
      into.set(part);
      return part.length;
    },
    { members: [member] },
  ).offsets[0];
