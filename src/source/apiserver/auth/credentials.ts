// SPDX-License-Identifier: Apache-2.0
// Who we are and whom we trust: service account files, or a kubeconfig read by @kubernetes/client-node,
// with its exec and auth-provider plugins. The only file that imports that package, and only when a
// kubeconfig is used: it costs 70 MB of memory.
import { readFile, stat } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import { dirname, join, resolve } from 'node:path';
import type { KubeConfig, User } from '@kubernetes/client-node';
import { load } from 'js-yaml';
import { FairleadError, reasonOf } from '../../../errors.ts';
import { isRecord, recordOrEmpty, shown } from '../../../lib/json.ts';
import { unreadableReason } from '../../../lib/unreadable.ts';

export type CredentialSource =
  | { readonly kind: 'kubeconfig'; readonly path: string }
  /** A folder with `token` and `ca.crt`, as every Pod has one. */
  | { readonly kind: 'service-account'; readonly dir: string }
  | { readonly kind: 'none' };

export interface Tls {
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
  /** The name the certificate must carry; undefined = the URL's host. */
  readonly serverName: string | undefined;
  readonly isVerified: boolean;
}

/** What a request needs at this moment. */
export interface Access {
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: Tls;
}

export interface Credentials {
  /** Files that changed are read again. Rejects with FairleadError if there is nothing to go by. */
  access(): Promise<Access>;
  /** After a 401: whatever is remembered is read, or asked for, again. */
  renew(): void;
}

const PLAIN: Tls = {
  ca: undefined,
  cert: undefined,
  key: undefined,
  serverName: undefined,
  isVerified: true,
};

export function openCredentials(source: CredentialSource): Credentials {
  if (source.kind === 'kubeconfig') return kubeconfigCredentials(source.path);
  if (source.kind === 'service-account') return serviceAccount(source.dir);
  return { access: async () => ({ headers: {}, tls: PLAIN }), renew: () => undefined };
}

/** The cluster entry's server URL. Throws FairleadError BAD_KUBECONFIG. */
export async function serverOfKubeconfig(path: string): Promise<string> {
  return clusterOf(await loadKubeconfig(path)).server.replace(/\/+$/, '');
}

function serviceAccount(dir: string): Credentials {
  const token = freshFile(join(dir, 'token'));
  const ca = freshFile(join(dir, 'ca.crt'));
  return {
    access: async () => ({
      headers: bearer((await token.text()).trim()),
      tls: { ...PLAIN, ca: await ca.text() },
    }),
    renew() {
      token.forget();
      ca.forget();
    },
  };
}

const bearer = (token: string): Record<string, string> =>
  token === '' ? {} : { authorization: `Bearer ${token}` };

interface Kubeconfig {
  readonly path: string;
  readonly config: KubeConfig;
  /** KubeConfig drops `tokenFile`, which kube-proxy's own ConfigMap uses. */
  readonly tokenFile: string | undefined;
}

function kubeconfigCredentials(path: string): Credentials {
  const file = freshFile(path);
  const parts = new Map<string, FreshFile>();
  let text = '';
  let loaded: Promise<Kubeconfig> | undefined;
  const part = (name: string): Promise<string> => {
    const found = parts.get(name) ?? freshFile(name);
    parts.set(name, found);
    return found.text();
  };
  return {
    async access() {
      const now = await file.text();
      if (loaded === undefined || now !== text) loaded = parseKubeconfig(path, now);
      text = now;
      return accessOf(await loaded, part);
    },
    renew() {
      // Plugins cache inside KubeConfig: a new one asks them again.
      loaded = undefined;
      for (const known of parts.values()) known.forget();
    },
  };
}

async function accessOf(
  kubeconfig: Kubeconfig,
  part: (path: string) => Promise<string>,
): Promise<Access> {
  const { config, path, tokenFile } = kubeconfig;
  const cluster = clusterOf(kubeconfig);
  const user: Partial<User> = config.getCurrentUser() ?? {};
  const inFile = async (given: string | null | undefined, file: string | null | undefined) =>
    given ? Buffer.from(given, 'base64').toString('utf8') : file ? part(file) : undefined;
  const plugin = user.exec || user.authProvider ? await askPlugin(config, path) : undefined;
  const token = tokenFile === undefined ? (user.token ?? '') : await part(tokenFile);
  return {
    headers: {
      ...bearer(token.trim()),
      ...plugin?.headers,
      ...(user.impersonateUser ? { 'impersonate-user': user.impersonateUser } : {}),
    },
    tls: {
      ca: await inFile(cluster.caData, cluster.caFile),
      cert: plugin?.cert ?? (await inFile(user.certData, user.certFile)),
      key: plugin?.key ?? (await inFile(user.keyData, user.keyFile)),
      serverName: cluster.tlsServerName || undefined,
      isVerified: !cluster.skipTLSVerify,
    },
  };
}

interface PluginAnswer {
  readonly headers: Readonly<Record<string, string>>;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

/** Runs an exec or auth-provider plugin as KubeConfig does; it remembers answers until they expire. */
async function askPlugin(config: KubeConfig, path: string): Promise<PluginAnswer> {
  const options: RequestOptions = { headers: {} };
  try {
    await config.applyToHTTPSOptions(options);
  } catch (error) {
    throw new FairleadError(
      'BAD_KUBECONFIG',
      `kubeconfig ${path}: its auth plugin failed: ${reasonOf(error)}`,
    );
  }
  const given: unknown = recordOrEmpty(options.headers)['Authorization'];
  return {
    headers: typeof given === 'string' ? { authorization: given } : {},
    cert: options.cert?.toString(),
    key: options.key?.toString(),
  };
}

async function loadKubeconfig(path: string): Promise<Kubeconfig> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const why = unreadableReason(error);
    throw new FairleadError('BAD_KUBECONFIG', `kubeconfig ${path} cannot be read: ${why}`);
  }
  return parseKubeconfig(path, text);
}

async function parseKubeconfig(path: string, text: string): Promise<Kubeconfig> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  try {
    config.loadFromString(text);
    config.makePathsAbsolute(dirname(resolve(path)));
    const kubeconfig = { path, config, tokenFile: tokenFileOf(config, path, load(text)) };
    clusterOf(kubeconfig);
    return kubeconfig;
  } catch (error) {
    if (error instanceof FairleadError) throw error;
    // A parser shows the place in further lines.
    const [why] = reasonOf(error).split('\n', 1);
    throw new FairleadError('BAD_KUBECONFIG', `kubeconfig ${path} cannot be parsed: ${why}`);
  }
}

function clusterOf({ config, path }: Kubeconfig) {
  const cluster = config.getCurrentCluster();
  const refuse = (reason: string) =>
    new FairleadError('BAD_KUBECONFIG', `kubeconfig ${path}: ${reason}`);
  const missing = missingPart(config);
  if (cluster === null || missing !== undefined) throw refuse(missing ?? 'it has no cluster');
  if (cluster.proxyUrl) throw refuse('proxy-url is not supported: name a server reached directly');
  if (!/^https?:\/\/./.test(cluster.server)) {
    throw refuse(`server must be an http or https URL, not ${JSON.stringify(cluster.server)}`);
  }
  return cluster;
}

/** A name that the file does not define. */
function missingPart(config: KubeConfig): string | undefined {
  const name = config.getCurrentContext();
  if (!name) return 'it sets no current-context: set it to one of its contexts';
  const context = config.getContextObject(name);
  if (context === null) return `current-context ${shown(name)} is not one of its contexts`;
  const { cluster, user } = context;
  const from = `context ${shown(name)} names`;
  if (config.getCurrentCluster() === null)
    return `${from} cluster ${shown(cluster)}, which the file does not define`;
  if (user && config.getCurrentUser() === null)
    return `${from} user ${shown(user)}, which the file does not define`;
  return undefined;
}

function tokenFileOf(config: KubeConfig, path: string, document: unknown): string | undefined {
  const name = config.getCurrentUser()?.name;
  const users = recordOrEmpty(document)['users'];
  const entry = Array.isArray(users)
    ? users.find((user: unknown) => isRecord(user) && user['name'] === name)
    : undefined;
  const file = recordOrEmpty(recordOrEmpty(entry)['user'])['tokenFile'];
  return typeof file === 'string' && file !== '' ? resolve(dirname(path), file) : undefined;
}

// A file whose content is wanted as it is now: read again when its times, size or inode changed, as the
// kubelet's atomic swap of projected tokens and CA bundles does.
interface FreshFile {
  /** Rejects if it cannot be read and never was; else the last good text is better than none. */
  text(): Promise<string>;
  /** Reads it again next time whatever its times say. */
  forget(): void;
}

function freshFile(path: string): FreshFile {
  let signature = '';
  let text: string | undefined;
  return {
    async text() {
      try {
        const { mtimeNs, size, ino } = await stat(path, { bigint: true });
        const now = `${mtimeNs}:${size}:${ino}`;
        if (text === undefined || now !== signature) {
          text = await readFile(path, 'utf8');
          signature = now;
        }
      } catch (error) {
        if (text === undefined) throw error;
      }
      return text;
    },
    forget() {
      signature = '';
    },
  };
}
