// SPDX-License-Identifier: Apache-2.0
// Kubeconfigs with one error each, derived from a valid one, and expired certificates.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dump } from 'js-yaml';
import { run } from '../../../../src/sys/exec.ts';
import { parseYaml } from '../../../support/yaml.ts';
import { type Certificates, inBase64, type KeyPair } from '../control-plane/certificates.ts';

/** The parts of a kubeconfig with one cluster, one user and one context. */
export interface KubeconfigParts {
  readonly cluster: Record<string, unknown>;
  readonly user: Record<string, unknown>;
  readonly context: Record<string, unknown>;
  readonly top: Record<string, unknown>;
}

/** Returns the text of the kubeconfig after applying `change`. */
export function changed(path: string, change: (parts: KubeconfigParts) => void): string {
  const top = parseYaml(readFileSync(path, 'utf8'));
  const [{ cluster }, { user }, { context }] = [top.clusters[0], top.users[0], top.contexts[0]];
  change({ cluster, user, context, top });
  return dump(top, { lineWidth: -1 });
}

const AUTHORITY = 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n';
const CLIENT = 'basicConstraints=critical,CA:FALSE\nextendedKeyUsage=clientAuth\n';

/** The CA certificate before its renewal: same name, same key, expired. Base64. */
export function expiredAuthority(folder: string, { ca }: Certificates): Promise<string> {
  return reissue(folder, { certificate: ca, key: keyOf(ca) }, AUTHORITY, []);
}

/** The proxy's certificate, signed by the right CA but expired. Base64. */
export function expiredClient(folder: string, { ca, proxy }: Certificates): Promise<string> {
  return reissue(folder, proxy, CLIENT, ['-CA', ca, '-CAkey', keyOf(ca)]);
}

const keyOf = (certificate: string): string => certificate.replace(/\.crt$/, '.key');

/** `-days 0` makes a certificate that expires immediately. */
async function reissue(
  folder: string,
  { certificate, key }: KeyPair,
  extensions: string,
  signer: readonly string[],
): Promise<string> {
  const paths = { ext: join(folder, 'ext'), csr: join(folder, 'csr'), out: join(folder, 'out') };
  writeFileSync(paths.ext, extensions);
  await openssl(['x509', '-x509toreq', '-in', certificate, '-signkey', key, '-out', paths.csr]);
  await openssl([
    ...['x509', '-req', '-in', paths.csr, '-days', '0', '-extfile', paths.ext],
    ...(signer.length > 0 ? signer : ['-signkey', key]),
    ...['-out', paths.out],
  ]);
  return inBase64(paths.out);
}

async function openssl(args: readonly string[]): Promise<void> {
  const { code, stderr } = await run('openssl', args);
  if (code !== 0) throw new Error(`openssl ${args[0]}: ${stderr.trim()}`);
}
