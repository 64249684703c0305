// SPDX-License-Identifier: Apache-2.0
// Collects the rejections of one object while it is projected.
import type { ObjectRef, Rejection } from './types.ts';

/** An object may hold a million bad entries; people need the first few. */
const MAX_REJECTIONS = 50;

/** Notes that `field` is rejected, why, and what takes its place; returns undefined so that callers can return it. */
export type Reject = (field: string, reason: string, instead?: string) => undefined;

export interface RejectionCollector {
  readonly reject: Reject;
  readonly rejections: readonly Rejection[];
}

export function collectRejections(object: ObjectRef): RejectionCollector {
  const rejections: Rejection[] = [];
  const reject: Reject = (field, reason, instead) => {
    if (rejections.length < MAX_REJECTIONS) {
      rejections.push({ object, field, reason, ...(instead !== undefined && { instead }) });
    } else if (rejections.length === MAX_REJECTIONS) {
      rejections.push({ object, field, reason: `${reason}; further problems are not listed` });
    }
    return undefined;
  };
  return { reject, rejections };
}
