// SPDX-License-Identifier: Apache-2.0
// The identities this control plane knows: static tokens, and kubeconfigs that contain them.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dump } from 'js-yaml';
import { type Certificates, inBase64 } from './certificates.ts';

/**
 * `admin`: everything. `proxy`: exactly ClusterRole `system:node-proxier`, which the API server's own
 * bootstrap policy binds to user `system:kube-proxy`. `nobody`: authenticated, without permissions (403).
 * `unknown`: a token that no API server knows (401).
 */
export type Identity = 'admin' | 'proxy' | 'nobody' | 'unknown';

export const TOKENS: Readonly<Record<Identity, string>> = {
  admin: 'token-of-admin',
  proxy: 'token-of-proxy',
  nobody: 'token-of-nobody',
  unknown: 'token-of-unknown',
};

/** The file for --token-auth-file: token, user, uid, groups. */
export function writeTokens(path: string): void {
  const lines = [
    `${TOKENS.admin},fairlead-test:admin,1,system:masters`,
    `${TOKENS.proxy},system:kube-proxy,2,`,
    `${TOKENS.nobody},fairlead-test:nobody,3,`,
  ];
  writeFileSync(path, `${lines.join('\n')}\n`, { mode: 0o600 });
}

export interface KubeconfigSpec {
  readonly server: string;
  readonly identity: Identity;
  /** Authenticate with a client certificate instead of the token; for `proxy` only. */
  readonly credential?: 'token' | 'certificate';
  /** `wrong`: trust a CA that did not sign the server's certificate. */
  readonly authority?: 'right' | 'wrong';
}

/** Writes a self-contained kubeconfig and returns its path, which is named after the options. */
export function writeKubeconfig(
  directory: string,
  certificates: Certificates,
  spec: KubeconfigSpec,
): string {
  const { server, identity, credential = 'token', authority = 'right' } = spec;
  const host = new URL(server).host.replaceAll(/[^0-9a-z.]/g, '-');
  const path = join(directory, `${identity}-${credential}-${authority}-${host}.kubeconfig`);
  const user =
    credential === 'token'
      ? { token: TOKENS[identity] }
      : {
          'client-certificate-data': inBase64(certificates.proxy.certificate),
          'client-key-data': inBase64(certificates.proxy.key),
        };
  const ca = authority === 'right' ? certificates.ca : certificates.wrongCa;
  const content = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster: { server, 'certificate-authority-data': inBase64(ca) } }],
    users: [{ name: identity, user }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: identity } }],
    'current-context': 'test',
  };
  writeFileSync(path, dump(content, { lineWidth: -1 }), { mode: 0o600 });
  return path;
}
