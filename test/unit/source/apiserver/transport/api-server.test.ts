// SPDX-License-Identifier: Apache-2.0
// Which source of the API server's address wins, and why.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  type ApiServerSettings,
  type DiscoveryEnvironment,
  findApiServer,
  MOUNTED_KUBECONFIG,
  SERVICE_ACCOUNT_DIR,
} from '../../../../../src/source/apiserver/transport/api-server.ts';
import { answers } from '../../../../../src/source/apiserver/transport/discovery-environment.ts';
import { IN_CLUSTER_NAME, Servers } from '../../../../../src/source/apiserver/transport/servers.ts';
import { status } from '../support/fake-api-server.ts';
import { openServer } from '../support/harness.ts';
import { AUTHORITY_A, AUTHORITY_B } from '../support/tls.ts';

const NOTHING: ApiServerSettings = {
  apiServers: [],
  configKubeconfig: undefined,
  kubeconfig: undefined,
  master: undefined,
};
const POD_ENV = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };
const TOKEN = join(SERVICE_ACCOUNT_DIR, 'token');
const CA = join(SERVICE_ACCOUNT_DIR, 'ca.crt');

interface Machine {
  readonly env?: DiscoveryEnvironment['env'];
  readonly files?: readonly string[];
  readonly answering?: string;
  readonly remembered?: readonly string[];
}

const find = (settings: Partial<ApiServerSettings>, machine: Machine = {}) =>
  findApiServer(
    { ...NOTHING, ...settings },
    {
      env: machine.env ?? {},
      exists: (path) => machine.files?.includes(path) ?? false,
      answers: async ({ url }) => url === machine.answering,
      remembered: machine.remembered ?? [],
    },
  );

async function kubeconfig(server: string): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'fairlead-kube-'));
  onTestFinished(() => rm(dir, { recursive: true }));
  const path = join(dir, 'config');
  const text = {
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
    clusters: [{ name: 'k', cluster: { server } }],
    users: [{ name: 'u', user: {} }],
  };
  await writeFile(path, JSON.stringify(text));
  return path;
}

describe('findApiServer', () => {
  test('--api-server takes precedence over everything, with the best available credentials', async () => {
    const path = await kubeconfig('https://k:6443');
    const apiServers = ['https://a:6443/', 'https://b:6443'];
    const machine = { env: POD_ENV, files: [TOKEN, CA, MOUNTED_KUBECONFIG] };
    const choice = await find({ apiServers, kubeconfig: path }, machine);
    expect(choice).toMatchObject({
      winner: 'api-server flag',
      credentials: { kind: 'kubeconfig', path },
      passedOver: [],
    });
    expect(choice.servers.map(({ url }) => url)).toEqual(['https://a:6443', 'https://b:6443']);
    const credentials = async (files: readonly string[]) =>
      (await find({ apiServers }, { files })).credentials;
    expect(await credentials([MOUNTED_KUBECONFIG])).toEqual({
      kind: 'kubeconfig',
      path: MOUNTED_KUBECONFIG,
    });
    expect(await credentials([TOKEN])).toMatchObject({ kind: 'service-account' });
    expect(await credentials([])).toEqual({ kind: 'none' });
  });

  test('--kubeconfig comes before that of the configuration, and --master replaces its server', async () => {
    const flag = await kubeconfig('https://flag:6443');
    const config = await kubeconfig('https://config:6443');
    const machine = { env: POD_ENV, files: [TOKEN] };
    const first = async (settings: Partial<ApiServerSettings>) => {
      const { servers, winner, why } = await find(settings, machine);
      return [winner, servers[0]?.url, why.split(' ')[0]];
    };
    expect(await first({ kubeconfig: flag, configKubeconfig: config })).toEqual([
      'kubeconfig',
      'https://flag:6443',
      '--kubeconfig',
    ]);
    expect(await first({ configKubeconfig: config })).toEqual([
      'kubeconfig',
      'https://config:6443',
      'clientConnection.kubeconfig',
    ]);
    expect(await first({ configKubeconfig: config, master: 'https://m:1' })).toEqual([
      'kubeconfig',
      'https://m:1',
      '--master',
    ]);
    expect(await first({ master: 'https://m:1' })).toEqual([
      'kubeconfig',
      'https://m:1',
      '--master',
    ]);
  });

  test("kube-proxy's mounted kubeconfig comes before the environment", async () => {
    // The path is fixed: a machine that says it exists, but cannot read it, shows that it was tried.
    const machine = { env: POD_ENV, files: [TOKEN, MOUNTED_KUBECONFIG] };
    await expect(find({}, machine)).rejects.toMatchObject({
      code: 'BAD_KUBECONFIG',
      message: expect.stringContaining(MOUNTED_KUBECONFIG),
    });
  });

  test('the environment comes next; what is remembered and this host stand behind it', async () => {
    const machine = { env: POD_ENV, files: [TOKEN, CA], remembered: ['https://192.0.2.7:6443'] };
    const choice = await find({}, machine);
    expect(choice).toMatchObject({
      winner: 'environment',
      why: 'KUBERNETES_SERVICE_HOST is set: https://10.96.0.1:443',
      credentials: { kind: 'service-account', dir: SERVICE_ACCOUNT_DIR },
    });
    expect(choice.servers).toEqual([
      { url: 'https://10.96.0.1:443', tlsName: undefined },
      ...[
        'https://192.0.2.7:6443',
        'https://127.0.0.1:6443',
        'https://127.0.0.1:6444',
        'https://127.0.0.1:7445',
      ].map((url) => ({ url, tlsName: IN_CLUSTER_NAME })),
    ]);
    expect(choice.passedOver).toHaveLength(3);
  });

  test('an IPv6 service host is put in brackets', async () => {
    const env = { ...POD_ENV, KUBERNETES_SERVICE_HOST: 'fd00::1' };
    const { servers } = await find({}, { env, files: [TOKEN] });
    expect(servers[0]?.url).toBe('https://[fd00::1]:443');
  });

  test('finally this host is probed, if there is a CA to verify the server', async () => {
    const answering = 'https://127.0.0.1:6444';
    const choice = await find({}, { files: [CA], answering });
    expect(choice).toMatchObject({ winner: 'probe', servers: [{ url: answering }] });
    await expect(find({}, { answering })).rejects.toMatchObject({ code: 'NO_API_SERVER' });
  });

  test('if nothing is found, the error says what was tried and what to do', async () => {
    await expect(find({}, { files: [CA] })).rejects.toMatchObject({
      code: 'NO_API_SERVER',
      message: expect.stringMatching(
        /no --api-server; .*kubeconfig.*; .*KUBERNETES_SERVICE_HOST.*; nothing answers at 127\.0\.0\.1.*Name one/,
      ),
    });
  });

  test('what is remembered does not stand behind an http server, and not twice', async () => {
    const remembered = ['https://a:6443', 'https://192.0.2.7:6443'];
    const urls = async (url: string) =>
      (await find({ apiServers: [url] }, { remembered })).servers.map((server) => server.url);
    expect(await urls('http://a:8080')).toEqual(['http://a:8080']);
    expect(await urls('https://a:6443')).toEqual(remembered);
  });

  test.each(['a:6443', '', 'ftp://a'])('%j is not the URL of a server', async (text) => {
    await expect(find({ apiServers: [text] })).rejects.toMatchObject({ code: 'NO_API_SERVER' });
  });
});

test('a probe needs an answer, of a server that the CA vouches for', async () => {
  const server = await openServer(AUTHORITY_A);
  server.fault = (_seen, response) => {
    status(response, 401, 'Unauthorized');
    return true;
  };
  const dir = await mkdtemp(join(tmpdir(), 'fairlead-kube-'));
  onTestFinished(() => rm(dir, { recursive: true }));
  await writeFile(join(dir, 'a'), AUTHORITY_A.ca);
  await writeFile(join(dir, 'b'), AUTHORITY_B.ca);
  const at = { url: server.url, tlsName: IN_CLUSTER_NAME };
  expect(await answers(at, join(dir, 'a'))).toBe(true);
  expect(await answers(at, join(dir, 'b'))).toBe(false);
  expect(server.seen.map(({ path, authorization }) => [path, authorization])).toEqual([
    ['/livez', undefined],
  ]);
  await server.close();
  expect(await answers(at, join(dir, 'a'))).toBe(false);
});

describe('the ring of servers', () => {
  const at = (url: string) => ({ url, tlsName: undefined });

  test('advances once for a failure seen by several kinds, and wraps around', () => {
    const servers = new Servers([at('a'), at('b')]);
    for (let seen = 0; seen < 4; seen += 1) servers.failed(at('a'));
    expect([servers.current().url, servers.rotations]).toEqual(['b', 1]);
    servers.failed(at('b'));
    expect(servers.current().url).toBe('a');
  });

  test('learns without leaving the one in use, even if that is no longer found', () => {
    const servers = new Servers([at('a')]);
    servers.learn([at('x'), at('a'), at('y')]);
    expect(servers.all().map(({ url }) => url)).toEqual(['a', 'x', 'y']);
    servers.failed(at('a'));
    servers.learn([at('z')]);
    expect(servers.current().url).toBe('x');
    servers.failed(at('x'));
    expect(servers.current().url).toBe('a');
    servers.learn([at('z')]);
    expect(servers.all().map(({ url }) => url)).toEqual(['a', 'z']);
  });
});
