// SPDX-License-Identifier: Apache-2.0
// The log: one JSON line per event on stderr (pino), or klog-like text for people. Constant messages;
// everything variable is a field. Knows nothing of Services.
import { Writable } from 'node:stream';
import { type Logger, pino } from 'pino';

export type { Logger } from 'pino';

const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
export type LogFormat = 'json' | 'text';

export function createLogger(level: LogLevel, format: LogFormat): Logger {
  const options = {
    level,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    messageKey: 'msg',
  };
  const text = textStream();
  const json = pino.destination({ dest: 2, sync: true });
  return pino(options, {
    write: (line) => {
      remember(line);
      if (format === 'text') text.write(line);
      else json.write(line);
    },
  });
}

/** A line of the log of a node that is failing may hold a verifier's answer. */
const LINES = 300;
const LINE_LENGTH = 2_000;
const lines: string[] = [];

function remember(line: string): void {
  lines.push(line.length > LINE_LENGTH ? `${line.slice(0, LINE_LENGTH)}…` : line.trimEnd());
  if (lines.length > LINES) lines.shift();
}

/** The latest lines of this process, as JSON. */
export const recentLog = (): readonly string[] => [...lines];

/** `I1121 13:20:58.123456 sync done changed=1 durationMs=0.4` */
function textStream(): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      process.stderr.write(textLine(chunk.toString()));
      done();
    },
  });
}

export function textLine(json: string): string {
  const { level, time, msg, ...fields } = JSON.parse(json) as Record<string, unknown>;
  const at = String(time);
  const stamp = `${at.slice(5, 7)}${at.slice(8, 10)} ${at.slice(11, 23)}`;
  const rest = Object.entries(fields)
    .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
    .join(' ');
  const letter = String(level).charAt(0).toUpperCase();
  return `${letter}${stamp} ${String(msg)}${rest === '' ? '' : ` ${rest}`}\n`;
}
