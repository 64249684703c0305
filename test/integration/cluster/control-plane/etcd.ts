// SPDX-License-Identifier: Apache-2.0
// One etcd on the control plane's loopback, without TLS and fsync, compacted only by tests. Accessed through
// its JSON gateway.
import { rmSync } from 'node:fs';
import { request } from 'undici';
import type { Sandbox } from '../../../../tools/lab/sandbox.ts';
import { type Program, startProgram, untilReady } from '../programs/program.ts';
import type { Relay } from '../programs/relay.ts';

export const ETCD_URL = 'http://127.0.0.1:2379';

export interface Etcd {
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Stops it and deletes its data; the next start begins at revision 1. */
  wipe(): Promise<void>;
  /** The revision of the last write, which is the resource version of a list at that time. */
  revision(): Promise<number>;
  /** Writes an object without an API server's validation, as an older release may have stored it. */
  put(key: string, object: object): Promise<void>;
  remove(key: string): Promise<void>;
  /** Compacts the history before a revision. */
  compact(revision: number): Promise<void>;
  tail(lines?: number): string;
}

export async function createEtcd(
  sandbox: Sandbox,
  binary: string,
  directory: string,
  relay: Relay,
): Promise<Etcd> {
  const url = `http://127.0.0.1:${await relay.forward('127.0.0.1', 2379)}`;
  let program: Program | undefined;
  const stop = async (): Promise<void> => {
    await program?.stop();
  };
  return {
    start: async () => {
      program = startProgram(sandbox, 'etcd', [binary, ...flags(directory)]);
      await untilReady(program, () => isHealthy(url));
    },
    stop,
    wipe: async () => {
      await program?.kill();
      rmSync(directory, { recursive: true, force: true });
    },
    revision: async () => {
      const answer = await call(url, '/v3/kv/range', { key: toBase64('/none') });
      const { header }: { header: { revision: string } } = JSON.parse(answer);
      return Number(header.revision);
    },
    put: async (key, object) => {
      const value = toBase64(JSON.stringify(object));
      await call(url, '/v3/kv/put', { key: toBase64(key), value });
    },
    remove: async (key) => {
      await call(url, '/v3/kv/deleterange', { key: toBase64(key) });
    },
    compact: async (revision) => {
      await call(url, '/v3/kv/compaction', { revision: String(revision), physical: true });
    },
    tail: (lines) => program?.tail(lines) ?? '',
  };
}

function flags(directory: string): string[] {
  return [
    `--data-dir=${directory}`,
    `--listen-client-urls=${ETCD_URL}`,
    `--advertise-client-urls=${ETCD_URL}`,
    '--listen-peer-urls=http://127.0.0.1:2380',
    '--initial-advertise-peer-urls=http://127.0.0.1:2380',
    '--initial-cluster=default=http://127.0.0.1:2380',
    '--unsafe-no-fsync',
    `--quota-backend-bytes=${4 * 1024 ** 3}`,
    '--log-level=warn',
  ];
}

async function isHealthy(url: string): Promise<boolean> {
  const { statusCode, body } = await request(`${url}/health`);
  await body.dump();
  return statusCode === 200;
}

async function call(url: string, path: string, message: object): Promise<string> {
  const { statusCode, body } = await request(url + path, {
    method: 'POST',
    body: JSON.stringify(message),
  });
  const text = await body.text();
  if (statusCode !== 200) throw new Error(`etcd ${path}: ${statusCode}: ${text.trim()}`);
  return text;
}

function toBase64(text: string): string {
  return Buffer.from(text).toString('base64');
}
