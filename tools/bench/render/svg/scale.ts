// SPDX-License-Identifier: Apache-2.0
// The vertical axis of a plot: from values to pixels, with ticks at round numbers. Pure.

export interface Scale {
  readonly isLogarithmic: boolean;
  readonly ticks: readonly number[];
  /** 0 is the lower end of the axis, 1 the upper one. */
  position(value: number): number;
}

/** From this ratio of the largest to the smallest value, a linear axis would hide the small ones. */
const LOGARITHMIC_FROM = 20;
const LINEAR_TICKS = 4;

/** Linear axes begin at 0, so that lengths can be compared. Values that are not positive count as absent. */
export function scaleOf(values: readonly number[]): Scale {
  const positive = values.filter((value) => value > 0);
  if (positive.length === 0) return linear(1);
  const [low, high] = [Math.min(...positive), Math.max(...positive)];
  return high / low >= LOGARITHMIC_FROM ? logarithmic(low, high) : linear(high);
}

function linear(high: number): Scale {
  const step = roundStep(high / LINEAR_TICKS);
  const top = Math.ceil(high / step - 1e-9) * step;
  const count = Math.round(top / step);
  return {
    isLogarithmic: false,
    ticks: Array.from({ length: count + 1 }, (_, at) => Number((at * step).toPrecision(12))),
    position: (value) => clamp(value / top),
  };
}

/** The next of 1, 2, 2.5, 5 times a power of ten. */
function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  const factor = [1, 2, 2.5, 5, 10].find((one) => one * power >= least * (1 - 1e-9)) ?? 10;
  return factor * power;
}

function logarithmic(low: number, high: number): Scale {
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const powers = Array.from({ length: to - from + 1 }, (_, at) => Number(`1e${from + at}`));
  return {
    isLogarithmic: true,
    ticks: powers,
    position: (value) => clamp((Math.log10(value) - from) / (to - from)),
  };
}

const clamp = (share: number): number => Math.min(1, Math.max(0, share));
