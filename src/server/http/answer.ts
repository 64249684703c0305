// SPDX-License-Identifier: Apache-2.0
// An HTTP answer as a value, and its sending.
import type { IncomingMessage, ServerResponse } from 'node:http';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const NO_SNIFF = { 'X-Content-Type-Options': 'nosniff' };

export const jsonAnswer = (status: number, body: string): Answer => ({
  status,
  headers: { 'Content-Type': 'application/json', ...NO_SNIFF },
  body,
});

export const textAnswer = (status: number, body: string): Answer => ({
  status,
  headers: { 'Content-Type': 'text/plain; charset=utf-8', ...NO_SNIFF },
  body,
});

/** What Go's ServeMux says. */
export const NOT_FOUND = textAnswer(404, '404 page not found\n');

export function send(response: ServerResponse, { status, headers, body }: Answer): void {
  response.writeHead(status, { ...headers, 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}

/** `/healthz?verbose` -> `/healthz`. */
export function pathOf({ url = '' }: IncomingMessage): string {
  return url.split('?', 1)[0] ?? '';
}
