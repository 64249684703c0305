// SPDX-License-Identifier: Apache-2.0
// A small client of the Kubernetes API for tests: takes paths, returns objects, throws errors with the
// status. Keep-alive connections, as many as there are concurrent requests. No retries, so that tests see
// every failure.
import { readFileSync } from 'node:fs';
import { Pool } from 'undici';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** The API server rejected the request. `status` is the HTTP code; `reason` its code, such as `Conflict`. */
export class ApiError extends Error {
  readonly status: number;
  readonly reason: string;
  constructor(what: string, status: number, body: string) {
    const { reason, message } = parseStatus(body);
    super(`${what}: ${status} ${reason}: ${message}`);
    this.status = status;
    this.reason = reason;
  }
}

export interface ListOf<T> {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly T[];
}

export interface Api {
  readonly url: string;
  get<T>(path: string): Promise<T>;
  /** Like `kubectl get --raw`. */
  text(path: string): Promise<string>;
  create<T extends object>(path: string, object: T): Promise<T>;
  replace<T extends object>(path: string, object: T): Promise<T>;
  /** JSON merge patch: null removes a field, lists are replaced whole. */
  patch<T>(path: string, change: object): Promise<T>;
  remove(path: string, options?: object): Promise<void>;
  /** Yields the lines of a watch until the caller stops iterating. Throws if the connection breaks. */
  watch(path: string): AsyncGenerator<string>;
  close(): Promise<void>;
}

export interface ApiSpec {
  readonly url: string;
  /** Path of the CA certificate. */
  readonly ca: string;
  readonly token: string;
  readonly connections?: number;
}

export function connectApi({ url, ca, token, connections = 16 }: ApiSpec): Api {
  const pool = new Pool(url, {
    connections,
    pipelining: 1,
    bodyTimeout: 0, // A watch may be idle for a long time.
    connect: { ca: readFileSync(ca) },
  });
  const ask = (method: Method, path: string, content?: object): Promise<string> =>
    exchange(pool, token, { method, path, ...(content === undefined ? {} : { content }) });
  return {
    url,
    get: async (path) => JSON.parse(await ask('GET', path)),
    text: (path) => ask('GET', path),
    create: async (path, object) => JSON.parse(await ask('POST', path, object)),
    replace: async (path, object) => JSON.parse(await ask('PUT', path, object)),
    patch: async (path, change) => JSON.parse(await ask('PATCH', path, change)),
    remove: async (path, options) => {
      await ask('DELETE', path, options);
    },
    watch: (path) => watch(pool, token, path),
    close: () => pool.destroy(),
  };
}

interface Question {
  readonly method: Method;
  readonly path: string;
  readonly content?: object;
}

async function exchange(pool: Pool, token: string, question: Question): Promise<string> {
  const { method, path, content } = question;
  const kind = method === 'PATCH' ? 'merge-patch+json' : 'json';
  const { statusCode, body } = await pool.request({
    method,
    path,
    headers: { authorization: `Bearer ${token}`, 'content-type': `application/${kind}` },
    body: content === undefined ? null : JSON.stringify(content),
  });
  const text = await body.text();
  if (statusCode < 300) return text;
  throw new ApiError(`${method} ${path}`, statusCode, text);
}

async function* watch(pool: Pool, token: string, path: string): AsyncGenerator<string> {
  const headers = { authorization: `Bearer ${token}` };
  const { statusCode, body } = await pool.request({ method: 'GET', path, headers });
  if (statusCode >= 300) throw new ApiError(`watch ${path}`, statusCode, await body.text());
  body.on('error', () => undefined); // Also emitted after the caller has stopped iterating.
  body.setEncoding('utf8');
  let rest = '';
  for await (const chunk of body) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}

function parseStatus(body: string): { reason: string; message: string } {
  try {
    const { reason = '', message = '' } = JSON.parse(body);
    return { reason: String(reason), message: String(message) };
  } catch {
    return { reason: '', message: body.trim() };
  }
}
