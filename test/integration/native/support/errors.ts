// SPDX-License-Identifier: Apache-2.0
// What a call throws, as the error the addon promises.
import type { NativeError } from '../../../../src/sys/native.ts';

export function caught(call: () => unknown): NativeError {
  try {
    call();
  } catch (error) {
    return error as NativeError;
  }
  throw new Error('the call did not throw');
}
