// SPDX-License-Identifier: Apache-2.0
// Durations as Go writes them (`1m30s`, `15m0s`, `250ms`), because kube-proxy's file holds them.
// Source: time.ParseDuration and Duration.String of Go's standard library.

const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

const DURATION = /^[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/;
const PART = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g;
/** Go's int64 of nanoseconds ends at about 292 years. */
const MAX_MS = 9_223_372_036_854;

/** `1m30s` -> 90000, `-5s` -> -5000, `0` -> 0; undefined where Go would refuse. */
export function parseDuration(text: string): number | undefined {
  if (!DURATION.test(text)) return undefined;
  let ms = 0;
  for (const [, count = '', unit = ''] of text.matchAll(PART)) {
    ms += Number(count) * (UNIT_MS[unit] ?? 0);
  }
  if (ms > MAX_MS) return undefined;
  return text.startsWith('-') && ms !== 0 ? -ms : ms;
}

/** The same for flags that kube-proxy does not have: there a bare number is in seconds. */
export function parseFlagDuration(text: string): number | undefined {
  return parseDuration(/^\d+(\.\d+)?$/.test(text) ? `${text}s` : text);
}

/** 90000 -> `1m30s`, 900000 -> `15m0s`, 0 -> `0s`, 1.5 -> `1.5ms`: what Go would print. */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0s';
  const sign = ms < 0 ? '-' : '';
  const nanoseconds = Math.round(Math.abs(ms) * 1e6);
  if (nanoseconds < 1e3) return `${sign}${nanoseconds}ns`;
  if (nanoseconds < 1e6) return `${sign}${decimal(nanoseconds, 1e3)}µs`;
  if (nanoseconds < 1e9) return `${sign}${decimal(nanoseconds, 1e6)}ms`;
  const minutes = Math.floor(nanoseconds / 60e9);
  const seconds = `${decimal(nanoseconds % 60e9, 1e9)}s`;
  if (minutes === 0) return sign + seconds;
  if (minutes < 60) return `${sign}${minutes}m${seconds}`;
  return `${sign}${Math.floor(minutes / 60)}h${minutes % 60}m${seconds}`;
}

/** 1500 of 1000 -> `1.5`, without floating-point noise. */
function decimal(count: number, unit: number): string {
  const digits = Math.log10(unit);
  const fraction = String(count % unit)
    .padStart(digits, '0')
    .replace(/0+$/, '');
  const whole = String(Math.floor(count / unit));
  return fraction === '' ? whole : `${whole}.${fraction}`;
}

/** Node's timers fire at once and continuously if set to less than 1 ms or to more than 31 bits of milliseconds. */
export function isInterval(text: string): boolean {
  const ms = parseDuration(text) ?? 0;
  return ms >= 100 && ms <= 24 * 24 * 3_600_000;
}
