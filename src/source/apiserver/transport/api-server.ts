// SPDX-License-Identifier: Apache-2.0
// Where the API server is. The usual answer, KUBERNETES_SERVICE_HOST, is a ClusterIP that nobody serves
// before a service proxy runs, so better ones come first, and each answer says why it won.
import { join } from 'node:path';
import { FairleadError } from '../../../errors.ts';
import { type CredentialSource, serverOfKubeconfig } from '../auth/credentials.ts';
import { IN_CLUSTER_NAME, type ServerUrl } from './servers.ts';

/** What flags and the configuration file say. */
export interface ApiServerSettings {
  /** --api-server, in order of preference. */
  readonly apiServers: readonly string[];
  /** clientConnection.kubeconfig of the configuration file. */
  readonly configKubeconfig: string | undefined;
  /** --kubeconfig. */
  readonly kubeconfig: string | undefined;
  /** --master: replaces the server of whatever kubeconfig is used. */
  readonly master: string | undefined;
}

/** The machine, as far as it has a say. */
export interface DiscoveryEnvironment {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly exists: (path: string) => boolean;
  /** True if an API server whose certificate this CA vouches for answers there. */
  readonly answers: (server: ServerUrl, caPath: string) => Promise<boolean>;
  /** URLs found in the cluster by an earlier run. */
  readonly remembered: readonly string[];
}

export type Winner =
  | 'api-server flag'
  | 'kubeconfig'
  | 'mounted kubeconfig'
  | 'environment'
  | 'probe';

export interface ApiServerChoice {
  /** In order of preference, the winner's first; never empty. */
  readonly servers: readonly ServerUrl[];
  readonly credentials: CredentialSource;
  readonly winner: Winner;
  /** For log and status: `KUBERNETES_SERVICE_HOST is set: https://10.96.0.1:443`. */
  readonly why: string;
  /** Why the answers before it were passed over. */
  readonly passedOver: readonly string[];
}

/** Where kube-proxy's own DaemonSet mounts its ConfigMap (kubeadm and most installers). */
export const MOUNTED_KUBECONFIG = '/var/lib/kube-proxy/kubeconfig.conf';
export const SERVICE_ACCOUNT_DIR = '/var/run/secrets/kubernetes.io/serviceaccount';
/** kube-apiserver or RKE2 on this host, k3s' load balancer, Talos' KubePrism. */
const LOCAL_PORTS = [6443, 6444, 7445] as const;

type Found = Pick<ApiServerChoice, 'servers' | 'credentials' | 'winner' | 'why'>;

/**
 * Order: --api-server · --kubeconfig, the configuration file's kubeconfig, --master · kube-proxy's mounted
 * kubeconfig · environment · a server on this host. Throws FairleadError NO_API_SERVER, BAD_KUBECONFIG.
 */
export async function findApiServer(
  settings: ApiServerSettings,
  environment: DiscoveryEnvironment,
): Promise<ApiServerChoice> {
  const passedOver: string[] = [];
  const steps = [fromFlag, fromKubeconfig, fromMounted, fromEnvironment, fromProbe];
  for (const step of steps) {
    const found = await step(settings, environment);
    if (typeof found === 'string') passedOver.push(found);
    else return { ...found, servers: withFallbacks(found, environment), passedOver };
  }
  throw new FairleadError(
    'NO_API_SERVER',
    `no API server found: ${passedOver.join('; ')}. Name one with --api-server https://HOST:6443`,
  );
}

/** A found answer, or why there is none. */
type Step = (
  settings: ApiServerSettings,
  environment: DiscoveryEnvironment,
) => Promise<Found | string>;

const fromFlag: Step = async (settings, environment) => {
  const { apiServers } = settings;
  if (apiServers.length === 0) return 'no --api-server';
  return {
    servers: apiServers.map((url) => serverUrl(url, '--api-server')),
    credentials: anyCredentials(settings, environment),
    winner: 'api-server flag',
    why: `--api-server names ${apiServers.join(', ')}`,
  };
};

const fromKubeconfig: Step = async (settings, environment) => {
  const { kubeconfig, configKubeconfig, master } = settings;
  const path = kubeconfig ?? configKubeconfig;
  if (path === undefined && master === undefined) return 'no kubeconfig in flags or configuration';
  const url = master ?? (await serverOfKubeconfig(path ?? ''));
  const origin = kubeconfig !== undefined ? '--kubeconfig' : 'clientConnection.kubeconfig';
  const why = master === undefined ? `${origin} ${path} names ${url}` : `--master names ${url}`;
  return {
    servers: [serverUrl(url, master === undefined ? origin : '--master')],
    credentials: anyCredentials(settings, environment),
    winner: 'kubeconfig',
    why,
  };
};

const fromMounted: Step = async (_settings, { exists }) => {
  const path = MOUNTED_KUBECONFIG;
  if (!exists(path)) return `no kube-proxy kubeconfig at ${path}`;
  const url = await serverOfKubeconfig(path);
  return {
    servers: [serverUrl(url, path)],
    credentials: { kind: 'kubeconfig', path },
    winner: 'mounted kubeconfig',
    why: `kube-proxy's ${path} names ${url}`,
  };
};

const fromEnvironment: Step = async (_settings, { env, exists }) => {
  const host = env['KUBERNETES_SERVICE_HOST'];
  const port = env['KUBERNETES_SERVICE_PORT'];
  if (!host || !port) return 'no KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT';
  if (!exists(join(SERVICE_ACCOUNT_DIR, 'token'))) return 'no service account token mounted';
  const url = hostUrl(host, port);
  return {
    servers: [{ url, tlsName: undefined }, ...LOCAL_SERVERS],
    credentials: SERVICE_ACCOUNT,
    winner: 'environment',
    why: `KUBERNETES_SERVICE_HOST is set: ${url}`,
  };
};

const fromProbe: Step = async (_settings, environment) => {
  const ca = join(SERVICE_ACCOUNT_DIR, 'ca.crt');
  if (!environment.exists(ca)) return 'no cluster CA to know a server on this host by';
  for (const server of LOCAL_SERVERS) {
    if (!(await environment.answers(server, ca))) continue;
    return {
      servers: [server],
      credentials: SERVICE_ACCOUNT,
      winner: 'probe',
      why: `an API server of this cluster answers at ${server.url}`,
    };
  }
  return `nothing answers at 127.0.0.1 on ${LOCAL_PORTS.join(', ')}`;
};

const SERVICE_ACCOUNT: CredentialSource = { kind: 'service-account', dir: SERVICE_ACCOUNT_DIR };

const LOCAL_SERVERS: readonly ServerUrl[] = LOCAL_PORTS.map((port) => ({
  url: `https://127.0.0.1:${port}`,
  tlsName: IN_CLUSTER_NAME,
}));

/** The best credentials there are, for a URL that came without any. */
function anyCredentials(
  settings: ApiServerSettings,
  { exists }: DiscoveryEnvironment,
): CredentialSource {
  const path = settings.kubeconfig ?? settings.configKubeconfig;
  if (path !== undefined) return { kind: 'kubeconfig', path };
  if (exists(MOUNTED_KUBECONFIG)) return { kind: 'kubeconfig', path: MOUNTED_KUBECONFIG };
  return exists(join(SERVICE_ACCOUNT_DIR, 'token')) ? SERVICE_ACCOUNT : { kind: 'none' };
}

/**
 * After the winner's own: what an earlier run found. A cold start then needs no ClusterIP. Only next to an
 * https server: an http one (a test, a demo) says nothing about whom to trust elsewhere.
 */
function withFallbacks(
  { servers }: Found,
  { remembered }: DiscoveryEnvironment,
): readonly ServerUrl[] {
  const [first, ...others] = servers;
  if (first === undefined || !first.url.startsWith('https:')) return servers;
  const known = new Set(servers.map(({ url }) => url));
  const found = remembered.filter((url) => !known.has(url));
  return [first, ...found.map((url) => ({ url, tlsName: IN_CLUSTER_NAME })), ...others];
}

function serverUrl(text: string, origin: string): ServerUrl {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    throw new FairleadError(
      'NO_API_SERVER',
      `${origin} must name a URL such as https://10.0.0.1:6443, not ${JSON.stringify(text)}`,
    );
  }
  return { url: text.replace(/\/+$/, ''), tlsName: undefined };
}

/** `10.0.0.1`, `fd00::1` -> `https://10.0.0.1:443`, `https://[fd00::1]:443`. */
export function hostUrl(host: string, port: string | number): string {
  return `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
