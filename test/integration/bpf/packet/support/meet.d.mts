// SPDX-License-Identifier: Apache-2.0
export function meet(shared: Int32Array, round: number): boolean;
