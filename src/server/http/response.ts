// SPDX-License-Identifier: Apache-2.0
// An HTTP response as a value, and sending it.
import type { IncomingMessage, ServerResponse } from 'node:http';

export interface HttpResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const NO_SNIFF = { 'X-Content-Type-Options': 'nosniff' };

export const jsonResponse = (status: number, body: string): HttpResponse => ({
  status,
  headers: { 'Content-Type': 'application/json', ...NO_SNIFF },
  body,
});

export const textResponse = (status: number, body: string): HttpResponse => ({
  status,
  headers: { 'Content-Type': 'text/plain; charset=utf-8', ...NO_SNIFF },
  body,
});

/** As Go's ServeMux. */
export const NOT_FOUND = textResponse(404, '404 page not found\n');

export function send(response: ServerResponse, { status, headers, body }: HttpResponse): void {
  response.writeHead(status, { ...headers, 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}

/** `/healthz?verbose` -> `/healthz`. */
export function pathOf({ url = '' }: IncomingMessage): string {
  return url.split('?', 1)[0] ?? '';
}
