// SPDX-License-Identifier: Apache-2.0
// The machine as findApiServer() asks it: environment, files, and whether something answers.
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { Client } from 'undici';
import type { DiscoveryEnvironment } from './api-server.ts';
import { readRemembered } from './remembered.ts';
import type { ServerUrl } from './servers.ts';

const ANSWER_TIMEOUT_MS = 2_000;

/** @param runDir where an earlier run has left the endpoints it found */
export async function discoveryEnvironment(runDir: string): Promise<DiscoveryEnvironment> {
  return {
    env: process.env,
    exists: existsSync,
    answers,
    remembered: await readRemembered(runDir),
  };
}

/** Sends no credentials: any answer over a connection that the CA vouches for will do, 401 too. */
export async function answers({ url, tlsName }: ServerUrl, caPath: string): Promise<boolean> {
  try {
    const ca = await readFile(caPath, 'utf8');
    const connect = { ca, timeout: ANSWER_TIMEOUT_MS, ...(tlsName ? { servername: tlsName } : {}) };
    const client = new Client(url, { connect, headersTimeout: ANSWER_TIMEOUT_MS });
    try {
      const signal = AbortSignal.timeout(2 * ANSWER_TIMEOUT_MS);
      await client.request({ path: '/livez', method: 'GET', signal });
      return true;
    } finally {
      await client.destroy();
    }
  } catch {
    return false;
  }
}
