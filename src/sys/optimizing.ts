// SPDX-License-Identifier: Apache-2.0
// When V8 optimizes a function: by default after some hundred calls, as suits a program that computes. A start runs everything once for
// each object, and is over before that pays: what the compiler's threads take is a quarter of its processor time (ADR 34). What
// runs all the time is optimized later. The flags have another name in each version, and one that does not know them does not start.
import { setFlagsFromString } from 'node:v8';

/** Eight times V8's defaults, by version of Node. */
const FLAGS: Readonly<Record<string, readonly string[]>> = {
  20: ['--interrupt-budget=540000'],
  22: ['--invocation-count-for-turbofan=24000'],
  24: ['--invocation-count-for-turbofan=24000', '--invocation-count-for-maglev=3200'],
};

export const lateOptimizing = (nodeVersion = process.versions.node): readonly string[] =>
  FLAGS[nodeVersion.split('.')[0] ?? ''] ?? [];

/** To be called before what does the work is loaded. */
export function optimizeLater(): void {
  for (const flag of lateOptimizing()) setFlagsFromString(flag);
}
