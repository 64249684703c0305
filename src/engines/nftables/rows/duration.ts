// SPDX-License-Identifier: Apache-2.0
// Seconds as nft prints them: durationText(10_861) -> '3h1m1s'.
const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
  ['s', 1],
] as const;

export function durationText(seconds: number): string {
  let left = seconds;
  let text = '';
  for (const [unit, size] of UNITS) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count > 0) text += `${count}${unit}`;
  }
  return text;
}
