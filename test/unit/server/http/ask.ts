// SPDX-License-Identifier: Apache-2.0
// One HTTP question to a server on this machine, for tests.
import { type IncomingHttpHeaders, request } from 'node:http';

export interface Heard {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Asking {
  readonly method?: string | undefined;
  readonly host?: string;
  readonly accept?: string;
}

export function ask(
  port: number,
  path: string,
  { method = 'GET', host = '127.0.0.1', accept }: Asking = {},
): Promise<Heard> {
  const headers = accept === undefined ? {} : { accept };
  return new Promise((resolve, reject) => {
    const asked = request({ host, port, path, method, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks).toString(),
        }),
      );
    });
    asked.on('error', reject);
    asked.end();
  });
}
