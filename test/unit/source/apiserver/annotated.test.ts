// SPDX-License-Identifier: Apache-2.0
// The annotation of a Node is taken back by what its agent has left on disk.
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  type Annotated,
  readAnnotated,
  takeBackAnnotation,
  writeAnnotated,
} from '../../../../src/source/apiserver/annotated.ts';

let runDir: string;
let server: Server;
let journal: string[];
/** What GET answers. */
let annotations: Record<string, string> | undefined;
/** What PATCH answers. */
let patchCode: number;

beforeEach(async () => {
  runDir = mkdtempSync(join(tmpdir(), 'run-'));
  journal = [];
  annotations = { 'fairlead.io/direct-return': 'geneve/1', other: 'stays' };
  patchCode = 200;
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    journal.push(`${request.method} ${request.url} ${Buffer.concat(chunks)}`.trim());
    const code = request.method === 'GET' && annotations === undefined ? 404 : 200;
    response.writeHead(request.method === 'PATCH' ? patchCode : code);
    response.end(JSON.stringify({ message: 'no right', metadata: { annotations } }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(runDir, { recursive: true });
});

const NOBODY = 'http://127.0.0.1:1';
const PATCH =
  'PATCH /api/v1/nodes/n1 {"metadata":{"annotations":{"fairlead.io/direct-return":null}}}';

const factsOf = (...urls: readonly string[]): Annotated => ({
  node: 'n1',
  servers: urls.map((url) => ({ url, tlsName: undefined })),
  credentials: { kind: 'none' },
});
const here = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

async function takeBack(...urls: readonly string[]): Promise<void> {
  await writeAnnotated(runDir, factsOf(...urls));
  const facts = await readAnnotated(runDir);
  expect(facts?.node).toBe('n1');
  await takeBackAnnotation(runDir, facts!, 'test');
}

test('one annotation is removed, and then what was left of it', async () => {
  await takeBack(here());
  expect(journal).toEqual(['GET /api/v1/nodes/n1', PATCH]);
  expect(readdirSync(runDir)).toEqual([]);
  expect(await readAnnotated(runDir)).toBeUndefined();
});

test('the next server is asked if one does not answer', async () => {
  await takeBack(NOBODY, here());
  expect(journal).toEqual(['GET /api/v1/nodes/n1', PATCH]);
});

test.each([
  ['a Node without it', {}],
  ['no Node', undefined],
])('%s: nothing is written', async (_, found) => {
  annotations = found;
  await takeBack(here());
  expect(journal).toEqual(['GET /api/v1/nodes/n1']);
  expect(readdirSync(runDir)).toEqual([]);
});

test('without the right, or a server, the next run can retry', async () => {
  patchCode = 403;
  await expect(takeBack(here())).rejects.toThrow(/403/);
  await expect(takeBack(NOBODY, NOBODY)).rejects.toThrow(/ECONNREFUSED/);
  expect(existsSync(join(runDir, 'annotated-node.json'))).toBe(true);
});

test.each(['', '{}', '{"format":2,"node":"n1","servers":[],"credentials":{}}'])(
  'a file with %j says nothing',
  async (text) => {
    writeFileSync(join(runDir, 'annotated-node.json'), text);
    expect(await readAnnotated(runDir)).toBeUndefined();
  },
);
