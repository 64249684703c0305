// SPDX-License-Identifier: Apache-2.0
// The keys and certificates of one control plane: its CA, what that has signed, and a second, untrusted CA.
// Made by openssl(1), valid for two days, removed with the folder.
import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../../../src/sys/exec.ts';

/** Paths of PEM files, except where said. */
export interface Certificates {
  readonly ca: string;
  /** A CA that has signed none of these certificates. */
  readonly wrongCa: string;
  readonly server: KeyPair;
  /** Client certificate of user `system:kube-proxy`, used instead of a token. */
  readonly proxy: KeyPair;
  readonly serviceAccounts: SigningPair;
}

/** Signs and verifies service account tokens. */
export interface SigningPair {
  readonly privateKey: string;
  readonly publicKey: string;
}

export interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

/** `addresses` and `names` become the subject alternative names of the API server. */
export async function makeCertificates(
  directory: string,
  addresses: readonly string[],
  names: readonly string[],
): Promise<Certificates> {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const settings = join(directory, 'openssl.cnf');
  const serverNames = [...addresses.map((ip) => `IP:${ip}`), ...names.map((name) => `DNS:${name}`)];
  writeFileSync(settings, settingsText(serverNames.join(',')));
  const issue = (name: string, section: string, subject: string, signer?: KeyPair) =>
    issueCertificate({ directory, settings, name, section, subject }, signer);
  const [ca, wrongCa] = await Promise.all([
    issue('ca', 'ca', '/CN=fairlead test authority'),
    issue('wrong-ca', 'ca', '/CN=somebody else'),
  ]);
  const [server, proxy] = await Promise.all([
    issue('server', 'server', '/CN=kube-apiserver', ca),
    issue('proxy', 'client', '/CN=system:kube-proxy', ca),
  ]);
  const serviceAccounts = makeSigningPair(directory);
  return { ca: ca.certificate, wrongCa: wrongCa.certificate, server, proxy, serviceAccounts };
}

function makeSigningPair(directory: string): SigningPair {
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const privateKey = join(directory, 'service-accounts.key');
  const publicKey = join(directory, 'service-accounts.pub');
  writeFileSync(privateKey, pair.privateKey.export({ type: 'pkcs8', format: 'pem' }));
  writeFileSync(publicKey, pair.publicKey.export({ type: 'spki', format: 'pem' }));
  return { privateKey, publicKey };
}

/** A PEM file in base64, as kubeconfigs embed it. */
export function inBase64(path: string): string {
  return readFileSync(path).toString('base64');
}

interface Request {
  readonly directory: string;
  readonly settings: string;
  readonly name: string;
  readonly section: string;
  readonly subject: string;
}

async function issueCertificate(request: Request, signer?: KeyPair): Promise<KeyPair> {
  const certificate = join(request.directory, `${request.name}.crt`);
  const key = join(request.directory, `${request.name}.key`);
  const { code, stderr } = await run('openssl', [
    ...['req', '-x509', '-config', request.settings, '-extensions', request.section],
    ...['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'],
    ...['-subj', request.subject, '-keyout', key, '-out', certificate],
    ...(signer === undefined ? [] : ['-CA', signer.certificate, '-CAkey', signer.key]),
  ]);
  if (code !== 0) throw new Error(`openssl, certificate ${request.name}: ${stderr.trim()}`);
  return { certificate, key };
}

function settingsText(serverNames: string): string {
  return `[req]
distinguished_name = subject
[subject]
[ca]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = ${serverNames}
[client]
basicConstraints = critical,CA:FALSE
extendedKeyUsage = clientAuth
`;
}
