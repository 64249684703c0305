// SPDX-License-Identifier: Apache-2.0
// How long the rest of a plan takes: as long as steps like those took that are done. Pure.
import type { Step } from './plan.ts';

export interface DoneStep {
  readonly step: Step;
  readonly seconds: number;
}

/** Of a step on two cores, before one like it is done. */
const GUESSES: Readonly<Record<Step['kind'], number>> = {
  grow: 2,
  turn: 9,
  roll: 12,
  'warm-up': 3,
  traffic: 3,
};

/** A column's steps are compared with each other, because proxies differ more than rounds do. */
export function secondsLeft(rest: readonly Step[], done: readonly DoneStep[]): number {
  return rest.reduce((sum, step) => sum + secondsOf(step, done), 0);
}

function secondsOf(step: Step, done: readonly DoneStep[]): number {
  const alike = done.filter((one) => one.step.kind === step.kind);
  const same = alike.filter((one) => columnOf(one.step) === columnOf(step));
  const known = (same.length > 0 ? same : alike).slice(-5);
  if (known.length === 0) return GUESSES[step.kind];
  return known.reduce((sum, { seconds }) => sum + seconds, 0) / known.length;
}

const columnOf = (one: Step): string | undefined => ('column' in one ? one.column : undefined);

/** `2 min 5 s`, `45 s` */
export function durationText(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const minutes = Math.floor(whole / 60);
  return minutes === 0 ? `${whole} s` : `${minutes} min ${whole % 60} s`;
}
