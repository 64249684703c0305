// SPDX-License-Identifier: Apache-2.0
// Catches the error of a call to the addon.
import type { NativeError } from '../../../../src/sys/native.ts';

export function caught(call: () => unknown): NativeError {
  try {
    call();
  } catch (error) {
    return error as NativeError;
  }
  throw new Error('the call did not throw');
}
