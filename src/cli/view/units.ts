// SPDX-License-Identifier: Apache-2.0
// Durations and sizes as kubectl prints them.

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;

/** `45s`, `2m5s`, `3h20m`, `2d3h`, `400d`: HumanDuration of apimachinery's util/duration. */
export function ageText(seconds: number): string {
  if (seconds < 2 * MINUTE) return `${Math.floor(seconds)}s`;
  if (seconds < 10 * MINUTE) return twoUnits(seconds, [MINUTE, 'm'], [1, 's']);
  if (seconds < 3 * HOUR) return `${Math.floor(seconds / MINUTE)}m`;
  if (seconds < 8 * HOUR) return twoUnits(seconds, [HOUR, 'h'], [MINUTE, 'm']);
  if (seconds < 2 * DAY) return `${Math.floor(seconds / HOUR)}h`;
  if (seconds < 8 * DAY) return twoUnits(seconds, [DAY, 'd'], [HOUR, 'h']);
  if (seconds < 2 * YEAR) return `${Math.floor(seconds / DAY)}d`;
  if (seconds < 8 * YEAR) return twoUnits(seconds, [YEAR, 'y'], [DAY, 'd']);
  return `${Math.floor(seconds / YEAR)}y`;
}

type Unit = readonly [seconds: number, name: string];

function twoUnits(seconds: number, [large, name]: Unit, [small, smallName]: Unit): string {
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)}${name}${rest === 0 ? '' : `${rest}${smallName}`}`;
}

const UNITS = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi'];

/** `0.4`, `512`, `1.5Ki`, `34Mi`. */
export function sizeText(bytes: number): string {
  let size = bytes;
  let unit = 0;
  while (unit < UNITS.length - 1 && Math.round(size) >= 1024) {
    size /= 1024;
    unit += 1;
  }
  const digits = size >= 9.95 ? String(Math.round(size)) : size.toFixed(1);
  return `${digits.replace(/\.0$/, '')}${UNITS[unit] ?? ''}`;
}
