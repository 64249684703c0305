// SPDX-License-Identifier: Apache-2.0
// Times on the command line: RFC 3339, a date and a time, or a time of the last 24 hours, in UTC unless they say otherwise. Pure.

const TIME = /^\d{2}:\d{2}(:\d{2}(\.\d+)?)?$/;
const HAS_ZONE = /(Z|[+-]\d{2}:\d{2})$/i;
const DAY_MS = 86_400_000;

/** @returns milliseconds since the epoch; of a time without a fraction the end of its second or minute. undefined: it is none */
export function timeMs(text: string, nowMs: number): number | undefined {
  const restMs = /\.\d+(Z|[+-]\d{2}:\d{2})?$/i.test(text) ? 0 : 999;
  const minuteMs = /\d{2}:\d{2}:\d{2}/.test(text) ? 0 : 59_000;
  const end = (ms: number): number | undefined =>
    Number.isNaN(ms) ? undefined : ms + restMs + minuteMs;
  if (TIME.test(text)) {
    const today = new Date(nowMs).toISOString().slice(0, 10);
    const ms = Date.parse(`${today}T${text}Z`);
    return end(ms > nowMs ? ms - DAY_MS : ms);
  }
  const iso = text.replace(' ', 'T');
  return iso.includes(':') && /^\d{4}-/.test(iso)
    ? end(Date.parse(HAS_ZONE.test(iso) ? iso : `${iso}Z`))
    : undefined;
}
