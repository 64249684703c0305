// SPDX-License-Identifier: Apache-2.0
// A service account with the role of a node proxy, and tokens with a chosen lifetime, in a file that a
// kubeconfig names, like projected tokens.
import { createPrivateKey, sign } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dump } from 'js-yaml';
import { until } from '../../../support/until.ts';
import { ApiError, connectApi } from '../objects/api.ts';
import type { ControlPlane } from './control-plane.ts';

const NAMESPACE = 'kube-system';
const ACCOUNTS = `/api/v1/namespaces/${NAMESPACE}/serviceaccounts`;
const BINDINGS = '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings';
/** The shortest lifetime that TokenRequest grants. */
const SHORTEST_SECONDS = 600;
/** How long API servers accept a token after its expiry (go-jose's default leeway). */
const LEEWAY_SECONDS = 60;

export interface TestAccount {
  /** Path of a kubeconfig that names the token file, which `write` replaces. */
  readonly kubeconfig: string;
  /** Requests a token from the API server. `lastsSeconds`: until the server rejects it, apart from its cache. */
  token(options?: { readonly lastsSeconds?: number }): Promise<string>;
  /** Replaces the file atomically, as the kubelet does. */
  write(token: string): void;
  untilRefused(token: string): Promise<void>;
}

export async function makeServiceAccount(plane: ControlPlane, name: string): Promise<TestAccount> {
  const { api, certificates, directory } = plane;
  await api.create(ACCOUNTS, { metadata: { name } });
  await api.create(BINDINGS, {
    metadata: { name },
    roleRef: {
      apiGroup: 'rbac.authorization.k8s.io',
      kind: 'ClusterRole',
      name: 'system:node-proxier',
    },
    subjects: [{ kind: 'ServiceAccount', name, namespace: NAMESPACE }],
  });
  const file = join(directory, `${name}.token`);
  return {
    kubeconfig: writeKubeconfig(plane, name, file),
    token: async ({ lastsSeconds } = {}) => {
      const granted = await requestToken(plane, name);
      if (lastsSeconds === undefined) return granted;
      const key = readFileSync(certificates.serviceAccounts.privateKey, 'utf8');
      return endingIn(granted, lastsSeconds, key);
    },
    write: (token) => {
      writeFileSync(`${file}.new`, token);
      renameSync(`${file}.new`, file);
    },
    untilRefused: (token) => untilRefused(plane, token),
  };
}

async function requestToken({ api }: ControlPlane, name: string): Promise<string> {
  const { status } = await api.create<{ spec: object; status?: { token: string } }>(
    `${ACCOUNTS}/${name}/token`,
    { spec: { expirationSeconds: SHORTEST_SECONDS } },
  );
  if (status === undefined) throw new Error(`no token for ${name}`);
  return status.token;
}

/** The same token with an earlier expiry, signed again as the API server would. */
function endingIn(token: string, seconds: number, key: string): string {
  const [head = '', body = ''] = token.split('.');
  const claims = JSON.parse(Buffer.from(body, 'base64url').toString());
  claims.exp = Math.floor(Date.now() / 1000) + seconds - LEEWAY_SECONDS;
  const signed = `${head}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`;
  // JWS wants r and s side by side (RFC 7518 section 3.4), not in DER.
  const options = { key: createPrivateKey(key), dsaEncoding: 'ieee-p1363' } as const;
  return `${signed}.${sign('sha256', Buffer.from(signed), options).toString('base64url')}`;
}

/** The API server caches a valid token for ten seconds. */
async function untilRefused(plane: ControlPlane, token: string): Promise<void> {
  const api = connectApi({ url: plane.server.localUrl, ca: plane.certificates.ca, token });
  const isRefused = async (): Promise<boolean> => {
    try {
      await api.text('/api/v1/services');
      return false;
    } catch (error) {
      return error instanceof ApiError && error.status === 401;
    }
  };
  try {
    await until(isRefused, 'the token to be refused');
  } finally {
    await api.close();
  }
}

function writeKubeconfig(
  { directory, certificates, server }: ControlPlane,
  name: string,
  tokenFile: string,
): string {
  const path = join(directory, `${name}.kubeconfig`);
  const content = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'test',
        cluster: { server: server.nodeUrl, 'certificate-authority': certificates.ca },
      },
    ],
    users: [{ name, user: { tokenFile } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: name } }],
    'current-context': 'test',
  };
  writeFileSync(path, dump(content, { lineWidth: -1 }), { mode: 0o600 });
  return path;
}
