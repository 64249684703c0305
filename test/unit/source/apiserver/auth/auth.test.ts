// SPDX-License-Identifier: Apache-2.0
// Credentials and certificate authorities: valid, changed and invalid ones.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  openCredentials,
  serverOfKubeconfig,
} from '../../../../../src/source/apiserver/auth/credentials.ts';
import { expiryOf } from '../../../../../src/source/apiserver/auth/expiry.ts';
import { LIMITS } from '../../../../../src/source/apiserver/limits.ts';
import { IN_CLUSTER_NAME } from '../../../../../src/source/apiserver/transport/servers.ts';
import { until } from '../../../../support/until.ts';
import { status } from '../support/fake-api-server.ts';
import { follow, openServer, PATH, serverWith } from '../support/harness.ts';
import { slice } from '../support/objects.ts';
import { AUTHORITY_A, AUTHORITY_B } from '../support/tls.ts';

/** An exec plugin whose tokens are t1, t2, …: it counts in a file how often it was asked. */
const countingPlugin = (asked: string) => ({
  apiVersion: 'client.authentication.k8s.io/v1',
  command: 'sh',
  args: ['-c', 'echo x >> "$ASKED"; printf \'{"status":{"token":"t%s"}}\' $(wc -l < "$ASKED")'],
  env: [{ name: 'ASKED', value: asked }],
});

async function folder(files: Readonly<Record<string, string>>) {
  const dir = await mkdtemp(join(tmpdir(), 'fairlead-kube-'));
  onTestFinished(() => rm(dir, { recursive: true }));
  const write = (name: string, text: string): Promise<void> => writeFile(join(dir, name), text);
  for (const [name, text] of Object.entries(files)) await write(name, text);
  return { dir, write, path: (name: string) => join(dir, name) };
}

const kubeconfig = (user: unknown, cluster: object = {}): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
    clusters: [{ name: 'k', cluster: { server: 'https://192.0.2.1:6443/', ...cluster } }],
    users: [{ name: 'u', user }],
  });

/** What requests made with a kubeconfig carry. */
async function access(user: unknown, files: Record<string, string> = {}, cluster: object = {}) {
  const own = await folder({ ...files, config: kubeconfig(user, cluster) });
  const credentials = openCredentials({ kind: 'kubeconfig', path: own.path('config') });
  return { ...own, credentials, now: await credentials.access() };
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

describe('credentials that have expired say so', () => {
  const now = new Date('2030-01-01T00:00:00Z');
  const tls = { ca: undefined, key: undefined, serverName: undefined, isVerified: true };
  const bearer = (claims: object) => ({
    headers: {
      authorization: `Bearer e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.x`,
    },
    tls: { ...tls, cert: undefined },
  });
  const seconds = now.getTime() / 1000;

  test('a token that is a JWT, by its claims', () => {
    expect(expiryOf(bearer({ exp: seconds - 1 }), now)).toBe(
      'the token expired at 2029-12-31T23:59:59.000Z',
    );
    expect(expiryOf(bearer({ exp: seconds + 1 }), now)).toBeUndefined();
    expect(expiryOf(bearer({}), now)).toBeUndefined();
    expect(
      expiryOf({ ...bearer({}), headers: { authorization: 'Bearer abc' } }, now),
    ).toBeUndefined();
    expect(expiryOf({ ...bearer({}), headers: {} }, now)).toBeUndefined();
  });

  test('a client certificate', () => {
    const access = { headers: {}, tls: { ...tls, cert: AUTHORITY_A.ca } };
    expect(expiryOf(access, new Date('2200-01-01'))).toMatch(
      /^the client certificate expired at 2/,
    );
    expect(expiryOf(access, new Date('2026-01-01'))).toBeUndefined();
  });
});

describe('a service account', () => {
  test('its token is reloaded when the file changes', async () => {
    const server = await serverWith('a');
    const { dir, write } = await folder({ token: 'one\n', 'ca.crt': AUTHORITY_A.ca });
    const following = follow(server, { credentials: { kind: 'service-account', dir } });
    await following.watching();
    await write('token', 'second');
    following.clock.advance(LIMITS.shortLifeMs);
    server.endWatches(PATH);
    await until(() => server.seen.length === 2, 'the second watch');
    expect(server.seen.map(({ authorization }) => authorization)).toEqual([
      'Bearer one',
      'Bearer second',
    ]);
  });

  test('401: the token is read again, whatever its times say, and the request repeated once', async () => {
    const server = await serverWith('a');
    const { dir } = await folder({ token: 'same', 'ca.crt': AUTHORITY_A.ca });
    server.fault = (_seen, response) => {
      status(response, 401, 'Unauthorized');
      return true;
    };
    const following = follow(server, { credentials: { kind: 'service-account', dir } });
    await following.passPause();
    expect(server.seen.length).toBeGreaterThanOrEqual(2);
    await until(() => following.reflector.counters.ends.refused === 2, 'the second failure');
    expect(server.seen).toHaveLength(4);
    server.fault = undefined;
    await following.passPause();
    await following.waitFor('synced');
  });

  test('a single 401 has no effect', async () => {
    const server = await serverWith('a');
    const { dir, write } = await folder({ token: 'old', 'ca.crt': AUTHORITY_A.ca });
    server.fault = ({ authorization }, response) => {
      if (authorization !== 'Bearer old') return false;
      void write('token', 'new').then(() => status(response, 401, 'Unauthorized'));
      return true;
    };
    const following = follow(server, { credentials: { kind: 'service-account', dir } });
    await following.watching();
    expect(server.seen.map(({ authorization }) => authorization)).toEqual([
      'Bearer old',
      'Bearer new',
    ]);
    expect(following.reflector.counters.ends.refused).toBe(0);
  });

  test('a server with an unknown CA is rejected; the CA is reloaded when it changes', async () => {
    const server = await openServer(AUTHORITY_B);
    server.put(PATH, slice('a'));
    const { dir, write } = await folder({ token: 't', 'ca.crt': AUTHORITY_A.ca });
    const servers = [{ url: server.url, tlsName: IN_CLUSTER_NAME }];
    const following = follow(server, { servers, credentials: { kind: 'service-account', dir } });
    await following.passPause();
    await until(() => following.reflector.counters.ends.broken === 2, 'the second failure');
    expect(server.seen).toEqual([]);
    expect(following.reflector.status().problem).toMatch(/certificate|signature/);
    await write('ca.crt', AUTHORITY_B.ca);
    await following.passPause();
    await following.waitFor('synced');
  });

  test('a certificate for another name is rejected', async () => {
    const server = await openServer(AUTHORITY_A);
    const { dir } = await folder({ token: 't', 'ca.crt': AUTHORITY_A.ca });
    const following = follow(server, { credentials: { kind: 'service-account', dir } });
    await until(() => following.reflector.counters.ends.broken === 1, 'the failure');
    expect(server.seen).toEqual([]);
  });

  test('no token at all: a problem, not a crash', async () => {
    const server = await serverWith('a');
    const { dir, write } = await folder({ 'ca.crt': AUTHORITY_A.ca });
    const following = follow(server, { credentials: { kind: 'service-account', dir } });
    await following.passPause();
    await until(() => following.reflector.status().problem !== undefined, 'a problem');
    expect(following.reflector.status().problem).toMatch(/token/);
    await write('token', 'here');
    await following.passPause();
    await following.waitFor('synced');
  });
});

describe('a kubeconfig', () => {
  test('names its server', async () => {
    const { path } = await folder({ config: kubeconfig({}) });
    expect(await serverOfKubeconfig(path('config'))).toBe('https://192.0.2.1:6443');
  });

  test('token', async () => {
    const { now } = await access({ token: 'abc' });
    expect(now.headers).toEqual({ authorization: 'Bearer abc' });
  });

  test("tokenFile, as kube-proxy's own ConfigMap has it, relative to the file, and read again", async () => {
    const { now, credentials, write } = await access({ tokenFile: 'token' }, { token: 'abc\n' });
    expect(now.headers).toEqual({ authorization: 'Bearer abc' });
    await write('token', 'another');
    expect((await credentials.access()).headers).toEqual({ authorization: 'Bearer another' });
  });

  test('certificates inline and in files, and a name for the server', async () => {
    const { now } = await access(
      { 'client-certificate': 'me.crt', 'client-key-data': base64('KEY') },
      { 'me.crt': 'CERT', 'ca.crt': 'CA' },
      { 'certificate-authority': 'ca.crt', 'tls-server-name': 'api' },
    );
    expect(now.tls).toEqual({
      ca: 'CA',
      cert: 'CERT',
      key: 'KEY',
      serverName: 'api',
      isVerified: true,
    });
  });

  test('an exec plugin is asked once, and again after a 401', async () => {
    const { write, path } = await folder({});
    const exec = countingPlugin(path('asked'));
    await write('config', kubeconfig({ exec }));
    const credentials = openCredentials({ kind: 'kubeconfig', path: path('config') });
    const token = async () => (await credentials.access()).headers['authorization'];
    expect([await token(), await token()]).toEqual(['Bearer t1', 'Bearer t1']);
    credentials.renew();
    expect(await token()).toBe('Bearer t2');
  });

  test('a 401 makes the plugin be asked again, and the request repeated', async () => {
    const server = await serverWith('a');
    const { write, path } = await folder({});
    const exec = countingPlugin(path('asked'));
    const cluster = { server: server.url, 'insecure-skip-tls-verify': true };
    await write('config', kubeconfig({ exec }, cluster));
    server.fault = ({ authorization }, response) => {
      if (authorization !== 'Bearer t1') return false;
      status(response, 401, 'Unauthorized');
      return true;
    };
    const source = { kind: 'kubeconfig', path: path('config') } as const;
    const following = follow(server, { credentials: source });
    await following.watching();
    expect(server.seen.map(({ authorization }) => authorization)).toEqual([
      'Bearer t1',
      'Bearer t2',
    ]);
  });

  test('a failing plugin is reported', async () => {
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'false' };
    await expect(access({ exec })).rejects.toMatchObject({
      code: 'BAD_KUBECONFIG',
      message: expect.stringMatching(/its auth plugin failed/),
    });
  });

  test('the file itself is read again when it changed', async () => {
    const { credentials, write } = await access({ token: 'abc' });
    await write('config', kubeconfig({ token: 'another' }));
    expect((await credentials.access()).headers).toEqual({ authorization: 'Bearer another' });
  });

  test.each([
    ['', /cannot be parsed: expected a document/],
    ['just words', /sets no current-context/],
    ['{"current-context": "x"}', /current-context "x" is not one of its contexts/],
    [
      kubeconfig({}).replace('"cluster":"k"', '"cluster":"other"'),
      /names cluster "other", which the file does not define/,
    ],
    [
      kubeconfig({}).replace('"user":"u"', '"user":"other"'),
      /names user "other", which the file does not define/,
    ],
    ['a: [', /cannot be parsed: unexpected end of the stream within a flow collection \(1:5\)$/],
    [kubeconfig({}, { server: 'nonsense' }), /http or https URL/],
    [kubeconfig({}, { 'proxy-url': 'http://p' }), /proxy-url/],
  ])('%s is refused', async (text, message) => {
    const { path } = await folder({ config: text });
    await expect(serverOfKubeconfig(path('config'))).rejects.toMatchObject({
      code: 'BAD_KUBECONFIG',
      message: expect.stringMatching(message),
    });
  });

  test('a file that is not there is refused', async () => {
    await expect(serverOfKubeconfig('/nonexistent/config')).rejects.toMatchObject({
      code: 'BAD_KUBECONFIG',
    });
  });
});
