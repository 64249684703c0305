// SPDX-License-Identifier: Apache-2.0
// Numbers for people: three significant digits, whatever the size. Pure.

const DIGITS = 3;

/** `14,100`, `141`, `14.1`, `1.41`, `0.0141` */
export function numberText(value: number): string {
  if (value === 0) return '0';
  const rounded = Number(value.toPrecision(DIGITS));
  const whole = Math.floor(Math.log10(Math.abs(rounded))) + 1;
  const fraction = Math.max(0, DIGITS - whole);
  return rounded.toLocaleString('en', {
    minimumFractionDigits: Math.min(fraction, DIGITS),
    maximumFractionDigits: fraction,
  });
}

/** `1.31`: ratios are compared with each other, so all have two decimals as long as that says something. */
export const ratioText = (value: number): string =>
  value >= 0.1 && value < 100 ? value.toFixed(2) : numberText(value);

export const countText = (value: number): string => value.toLocaleString('en');
