// SPDX-License-Identifier: Apache-2.0
// What an agent keeps on disk as long as its Node has annotations of the agent: the Node, the API servers and where its
// credentials are. `cleanup` takes the annotations back by it, when no agent runs any more.
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isRecord, recordOrEmpty } from '../../lib/json.ts';
import { OWN_ANNOTATIONS } from '../../model/node/own-annotations.ts';
import { SYSTEM_CLOCK } from '../../sys/clock.ts';
import { type CredentialSource, openCredentials } from './auth/credentials.ts';
import { readRemembered } from './transport/remembered.ts';
import { IN_CLUSTER_NAME, Servers, type ServerUrl } from './transport/servers.ts';
import { createTransport, type Transport } from './transport/transport.ts';
import { ApiError } from './watch/watch-error.ts';

const FILE = 'annotated-node.json';
const FORMAT = 1;

export interface Annotated {
  readonly node: string;
  /** In order of preference. */
  readonly servers: readonly ServerUrl[];
  readonly credentials: CredentialSource;
}

/** undefined: no agent has left an annotation, or nobody can tell any more. */
export async function readAnnotated(runDir: string): Promise<Annotated | undefined> {
  try {
    const document: unknown = JSON.parse(await readFile(join(runDir, FILE), 'utf8'));
    const { format, node, servers, credentials } = recordOrEmpty(document);
    const isOurs = typeof node === 'string' && Array.isArray(servers) && isRecord(credentials);
    return format === FORMAT && isOurs ? (document as Annotated) : undefined;
  } catch {
    return undefined;
  }
}

/** Replaces the file as a whole; undefined removes it. */
export async function writeAnnotated(runDir: string, facts: Annotated | undefined): Promise<void> {
  const path = join(runDir, FILE);
  if (facts === undefined) return rm(path, { force: true });
  await mkdir(runDir, { recursive: true, mode: 0o700 });
  const text = `${JSON.stringify({ format: FORMAT, ...facts })}\n`;
  await writeFile(`${path}.new`, text, { mode: 0o600 });
  await rename(`${path}.new`, path);
}

/** Removes the annotations, if the Node is there and still has one, and then the file. Throws if no server lets it. */
export async function takeBackAnnotation(
  runDir: string,
  { node, servers, credentials }: Annotated,
  userAgent: string,
): Promise<void> {
  const ring = new Servers(servers);
  if (servers.every(({ url }) => url.startsWith('https:'))) {
    const found = await readRemembered(runDir);
    ring.learn(found.map((url) => ({ url, tlsName: IN_CLUSTER_NAME })));
  }
  const parts = { servers: ring, clock: SYSTEM_CLOCK, userAgent };
  const transport = createTransport({ ...parts, credentials: openCredentials(credentials) });
  try {
    const path = `/api/v1/nodes/${node}`;
    if (await hasAnnotation(transport, path, ring.all().length)) {
      await transport.patch(path, {
        metadata: { annotations: Object.fromEntries(OWN_ANNOTATIONS.map((name) => [name, null])) },
      });
    }
  } finally {
    await transport.close();
  }
  await writeAnnotated(runDir, undefined);
}

/** @param tries one for each server: one that fails makes way for the next */
async function hasAnnotation(transport: Transport, path: string, tries: number): Promise<boolean> {
  try {
    const { metadata } = recordOrEmpty(await transport.json(path, new AbortController()));
    const { annotations } = recordOrEmpty(metadata);
    return OWN_ANNOTATIONS.some((name) => recordOrEmpty(annotations)[name] !== undefined);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return false;
    const isAnswer = error instanceof ApiError && error.status < 500;
    if (isAnswer || tries <= 1) throw error;
    return hasAnnotation(transport, path, tries - 1);
  }
}
