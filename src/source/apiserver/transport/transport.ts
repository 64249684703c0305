// SPDX-License-Identifier: Apache-2.0
// Requests to the API server in use: credentials as they are now, one retry after a 401, a limit on
// the wait for headers, rotation when a server fails. Knows nothing of kinds.
import { Pool } from 'undici';
import type { Clock } from '../../../lib/clock.ts';
import { isRecord, recordOrEmpty } from '../../../lib/json.ts';
import type { Access, Credentials } from '../auth/credentials.ts';
import { expiryOf } from '../auth/expiry.ts';
import type { RequestFacts } from '../counters.ts';
import { LIMITS } from '../limits.ts';
import { ApiError, WatchError } from '../watch/watch-error.ts';
import type { Servers, ServerUrl } from './servers.ts';

/**
 * Idle time before the kernel asks whether the peer is still there; libuv then asks each second and gives
 * up after ten. undici's own default starts after 60 s.
 */
const KEEPALIVE_IDLE_MS = 15_000;
const CONNECT_TIMEOUT_MS = 10_000;

export interface Answer {
  readonly body: AsyncIterable<Uint8Array>;
  readonly server: ServerUrl;
}

export interface Transport {
  /**
   * Resolves at the headers of a 2xx; the signal goes on to cover the body. Throws ApiError for any other
   * status; FairleadError if there are no credentials; else what the network threw.
   */
  get(pathAndQuery: string, request: AbortController): Promise<Answer>;
  /** The whole of a small answer. Rejects as get() does, and with SyntaxError for what is no JSON. */
  json(pathAndQuery: string, request: AbortController): Promise<unknown>;
  /** Sends one object; resolves when it was accepted, its time bounded. Rejects as get() does. */
  post(pathAndQuery: string, object: unknown): Promise<void>;
  /** The same for a JSON merge patch (RFC 7386). */
  patch(pathAndQuery: string, patch: unknown): Promise<void>;
  /** A stream of this server went bad after its headers. */
  failed(server: ServerUrl): void;
  readonly unauthorized: () => number;
  /** Ends all connections. Idempotent. */
  close(): Promise<void>;
}

export interface TransportParts {
  readonly servers: Servers;
  readonly credentials: Credentials;
  readonly clock: Clock;
  readonly userAgent: string;
  /** Each request once, whether or not it was answered. */
  readonly onRequest?: ((request: RequestFacts) => void) | undefined;
}

export function createTransport(parts: TransportParts): Transport {
  return new HttpTransport(parts);
}

interface Sent {
  readonly method: 'POST' | 'PATCH';
  /** Its media type. */
  readonly type: string;
  readonly object: unknown;
}

class HttpTransport implements Transport {
  readonly #parts: TransportParts;
  /** By server and everything that decides about TLS. */
  readonly #pools = new Map<string, Pool>();
  #unauthorized = 0;

  constructor(parts: TransportParts) {
    this.#parts = parts;
  }

  readonly unauthorized = (): number => this.#unauthorized;

  async get(pathAndQuery: string, request: AbortController): Promise<Answer> {
    const { servers, clock } = this.#parts;
    const server = servers.current();
    const cancel = clock.after(LIMITS.headersTimeoutMs, () =>
      request.abort(new WatchError('silent', `no answer from ${server.url} in time`)),
    );
    try {
      return await this.#sendTo(server, pathAndQuery, request.signal);
    } catch (error) {
      const isServerFault = !(error instanceof ApiError) || error.status >= 500;
      const isOurs =
        request.signal.reason instanceof WatchError && request.signal.reason.reason !== 'silent';
      if (isServerFault && !isOurs) servers.failed(server);
      throw error;
    } finally {
      cancel();
    }
  }

  async json(pathAndQuery: string, request: AbortController): Promise<unknown> {
    const late = new WatchError('late', 'no answer in time');
    const cancel = this.#parts.clock.after(LIMITS.identityTimeoutMs, () => request.abort(late));
    try {
      const { body } = await this.get(pathAndQuery, request);
      const chunks: Uint8Array[] = [];
      for await (const chunk of body) chunks.push(chunk);
      return JSON.parse(Buffer.concat(chunks).toString('utf8'));
    } finally {
      cancel();
    }
  }

  post(pathAndQuery: string, object: unknown): Promise<void> {
    return this.#write(pathAndQuery, { method: 'POST', type: 'application/json', object });
  }

  patch(pathAndQuery: string, object: unknown): Promise<void> {
    const type = 'application/merge-patch+json';
    return this.#write(pathAndQuery, { method: 'PATCH', type, object });
  }

  async #write(pathAndQuery: string, sent: Sent): Promise<void> {
    const signal = AbortSignal.timeout(LIMITS.headersTimeoutMs);
    const answer = await this.#sendTo(this.#parts.servers.current(), pathAndQuery, signal, sent);
    for await (const chunk of answer.body) void chunk;
  }

  failed(server: ServerUrl): void {
    this.#parts.servers.failed(server);
  }

  async close(): Promise<void> {
    const pools = [...this.#pools.values()];
    this.#pools.clear();
    await Promise.all(pools.map((pool) => pool.destroy()));
  }

  async #sendTo(
    server: ServerUrl,
    path: string,
    signal: AbortSignal,
    sent?: Sent,
  ): Promise<Answer> {
    try {
      return await this.#once(server, path, signal, sent);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 401) || signal.aborted) throw error;
      this.#unauthorized += 1;
      this.#parts.credentials.renew();
      return await this.#once(server, path, signal, sent);
    }
  }

  async #once(
    server: ServerUrl,
    path: string,
    signal: AbortSignal,
    sent: Sent | undefined,
  ): Promise<Answer> {
    const access = await orAborted(this.#parts.credentials.access(), signal);
    const { origin, host, pathname } = new URL(server.url);
    const method = sent?.method ?? 'GET';
    const pool = this.#pool(server, origin, access);
    const { statusCode, headers, body } = await this.#counted({ method, host }, () =>
      pool.request({
        path: `${pathname.replace(/\/+$/, '')}${path}`,
        method,
        headers: {
          accept: 'application/json',
          'user-agent': this.#parts.userAgent,
          ...(sent === undefined ? {} : { 'content-type': sent.type }),
          ...access.headers,
        },
        ...(sent === undefined ? {} : { body: JSON.stringify(sent.object) }),
        signal,
      }),
    );
    if (statusCode >= 200 && statusCode < 300) return { body, server };
    const error = await statusError(statusCode, headers['retry-after'], body);
    const expiry = statusCode === 401 ? expiryOf(access, new Date()) : undefined;
    if (expiry !== undefined) error.message += `: ${expiry}`;
    throw error;
  }

  async #counted<T extends { readonly statusCode: number }>(
    facts: Pick<RequestFacts, 'method' | 'host'>,
    send: () => Promise<T>,
  ): Promise<T> {
    const { clock, onRequest } = this.#parts;
    const startMs = clock.monotonicMs();
    let code = '<error>';
    try {
      const answer = await send();
      code = String(answer.statusCode);
      return answer;
    } finally {
      onRequest?.({ ...facts, code, durationMs: clock.monotonicMs() - startMs });
    }
  }

  /** Connections outlive a request; a changed CA or certificate gets a pool of its own. */
  #pool(server: ServerUrl, origin: string, { tls }: Access): Pool {
    const serverName = server.tlsName ?? tls.serverName;
    const prefix = `${origin} ${serverName ?? ''} `;
    const key = `${prefix}${JSON.stringify(tls)}`;
    const known = this.#pools.get(key);
    if (known !== undefined) return known;
    for (const [other, pool] of this.#pools) {
      if (!other.startsWith(prefix)) continue;
      // Streams that run on it end in their own time.
      this.#pools.delete(other);
      void pool.close().catch(() => undefined);
    }
    const pool = new Pool(origin, {
      bodyTimeout: 0,
      headersTimeout: 0,
      connect: {
        timeout: CONNECT_TIMEOUT_MS,
        keepAlive: true,
        keepAliveInitialDelay: KEEPALIVE_IDLE_MS,
        rejectUnauthorized: tls.isVerified,
        ...(tls.ca === undefined ? {} : { ca: tls.ca }),
        ...(tls.cert === undefined ? {} : { cert: tls.cert }),
        ...(tls.key === undefined ? {} : { key: tls.key }),
        ...(serverName === undefined ? {} : { servername: serverName }),
      },
    });
    this.#pools.set(key, pool);
    return pool;
  }
}

/** A plugin that never answers must not outlive the request it is asked for. */
function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

const MAX_BYTES = 64 * 1024;

/** Reads at most 64 KiB of the body; never throws for what is in it. */
async function statusError(
  status: number,
  retryAfter: string | string[] | undefined,
  body: AsyncIterable<Uint8Array>,
): Promise<ApiError> {
  const text = await shortText(body);
  const answer = recordOrEmpty(parsed(text));
  const { message, details } = answer;
  const { retryAfterSeconds, causes } = recordOrEmpty(details);
  const said = typeof message === 'string' ? message : text.slice(0, 200).trim();
  const fromBody = typeof retryAfterSeconds === 'number' ? retryAfterSeconds * 1000 : 0;
  return new ApiError(`HTTP ${status}${said === '' ? '' : `: ${said}`}`, {
    status,
    retryAfterMs: Math.max(fromBody, headerMs(retryAfter)),
    isTooLargeVersion:
      (Array.isArray(causes) &&
        causes.some(
          (cause: unknown) => isRecord(cause) && cause['reason'] === 'ResourceVersionTooLarge',
        )) ||
      said.includes('Too large resource version'),
  });
}

async function shortText(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    sizeBytes += chunk.length;
    if (sizeBytes >= MAX_BYTES) break;
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Seconds, or a date (RFC 9110 section 10.2.3). */
function headerMs(value: string | string[] | undefined): number {
  const text = Array.isArray(value) ? value[0] : value;
  if (text === undefined) return 0;
  if (/^\d+$/.test(text.trim())) return Number(text) * 1000;
  const atMs = Date.parse(text);
  return Number.isNaN(atMs) ? 0 : Math.max(0, atMs - Date.now());
}
