// SPDX-License-Identifier: Apache-2.0
// A real control plane for tests, in a network namespace of its own: etcd, one API server or several, a
// controller manager. `startControlPlane` makes one in seconds; `remove` leaves nothing.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Place } from '../../src/demo/place.ts';
import { run } from '../../src/sys/exec.ts';
import type { Api } from './api.ts';
import { type ApiServer, createApiServer } from './api-server.ts';
import type { Binaries } from './binaries.ts';
import { type Certificates, makeCertificates } from './certificates.ts';
import { startControllerManager } from './controller-manager.ts';
import { createEtcd, type Etcd } from './etcd.ts';
import { type KubeconfigSpec, writeKubeconfig, writeTokens } from './identities.ts';
import { connectNode, makePlaneNetwork, type PlaneNode, SERVER_ADDRESSES } from './network.ts';
import type { Program } from './program.ts';
import { openRelay, type Relay } from './relay.ts';
import { openWorkspace, type Workspace } from './workspace.ts';

const SERVER_NAMES = ['kubernetes', 'kubernetes.default', 'kubernetes.default.svc', 'localhost'];

export interface PlaneOptions {
  /** Further flags of every API server. */
  readonly apiServerFlags?: readonly string[];
  /** `none`: no EndpointSlice but those a test writes. */
  readonly controllers?: 'services' | 'none';
}

export interface KubeconfigRequest extends Omit<KubeconfigSpec, 'server'> {
  /** `node`: for programs in connected nodes. `here`: for this process and its children. */
  readonly from: 'node' | 'here';
  readonly server?: ApiServer;
}

export interface ControlPlane {
  readonly prefix: string;
  readonly namespace: string;
  readonly directory: string;
  readonly binaries: Binaries;
  readonly etcd: Etcd;
  /** The first API server; the controller manager uses it. */
  readonly server: ApiServer;
  /** As admin, of the first API server. */
  readonly api: Api;
  readonly controllerManager: Program | undefined;
  /** Starts one more API server on the same etcd. */
  addServer(): Promise<ApiServer>;
  /** Gives a node's namespace a wire to the API servers; call it before programs there need one. */
  connect(node: PlaneNode): Promise<void>;
  /** Writes a kubeconfig and returns its path. */
  kubeconfig(request: KubeconfigRequest): string;
  /** As admin; returns what it printed, throws what it complained of. */
  kubectl(args: readonly string[], stdin?: string): Promise<string>;
  /** A place for a program that is to go with this control plane. */
  place(name: string, namespace: string): Place;
  /**
   * Makes every older resource version expire (410): compacts etcd, and restarts the running API servers,
   * whose watch caches remember on their own. Returns the revision where history begins.
   */
  forgetHistory(): Promise<number>;
  /** The same addresses, keys and tokens before an empty store: what restoring no backup looks like. */
  replaceStore(): Promise<void>;
  remove(): Promise<void>;
}

/** Returns when the first API server is ready. Removes what it made if it fails half way. */
export async function startControlPlane(
  binaries: Binaries,
  options: PlaneOptions = {},
): Promise<ControlPlane> {
  const workspace = openWorkspace();
  try {
    const parts = await makeParts(workspace, binaries, options);
    await parts.etcd.start();
    const server = await addServer(parts);
    startManager(parts, server);
    return asControlPlane(parts, server);
  } catch (error) {
    workspace.remove();
    throw error;
  }
}

interface Parts {
  readonly workspace: Workspace;
  readonly binaries: Binaries;
  readonly options: PlaneOptions;
  readonly certificates: Certificates;
  readonly place: Place;
  readonly relay: Relay;
  readonly etcd: Etcd;
  readonly servers: ApiServer[];
  manager: Program | undefined;
}

async function makeParts(
  workspace: Workspace,
  binaries: Binaries,
  options: PlaneOptions,
): Promise<Parts> {
  const { prefix, directory } = workspace;
  const place = workspace.place('plane', `${prefix}-plane`);
  const addresses = [...SERVER_ADDRESSES, '127.0.0.1', '10.96.0.1', 'fd00:96::1'];
  const [certificates] = await Promise.all([
    makeCertificates(join(directory, 'keys'), addresses, SERVER_NAMES),
    makePlaneNetwork(place.namespace),
  ]);
  writeTokens(join(directory, 'tokens.csv'));
  mkdirSync(join(directory, 'kubeconfigs'));
  const relay = openRelay(place);
  const etcd = await createEtcd(place, binaries.etcd, join(directory, 'etcd'), relay);
  const kept = { workspace, binaries, options, certificates, place, relay, etcd };
  return { ...kept, servers: [], manager: undefined };
}

async function addServer(parts: Parts): Promise<ApiServer> {
  const { place, certificates, relay, servers } = parts;
  const added = await createApiServer({
    ...{ place, certificates, relay },
    binary: parts.binaries.apiServer,
    directory: parts.workspace.directory,
    index: servers.length,
    flags: parts.options.apiServerFlags ?? [],
  });
  servers.push(added);
  await added.start();
  return added;
}

function startManager(parts: Parts, server: ApiServer): void {
  if (parts.options.controllers === 'none') return;
  const { place, certificates, workspace, binaries } = parts;
  const kubeconfig = writePlaneKubeconfig(parts, server, { identity: 'admin', from: 'node' });
  const { directory } = workspace;
  const binary = binaries.controllerManager;
  parts.manager = startControllerManager({ place, binary, certificates, directory, kubeconfig });
}

function writePlaneKubeconfig(
  { workspace, certificates }: Parts,
  first: ApiServer,
  { from, server = first, ...spec }: KubeconfigRequest,
): string {
  const url = from === 'node' ? server.nodeUrl : server.localUrl;
  const directory = join(workspace.directory, 'kubeconfigs');
  return writeKubeconfig(directory, certificates, { ...spec, server: url });
}

function asControlPlane(parts: Parts, server: ApiServer): ControlPlane {
  const { workspace, binaries, place, etcd } = parts;
  const { prefix, directory } = workspace;
  const kubeconfig = (request: KubeconfigRequest): string =>
    writePlaneKubeconfig(parts, server, request);
  return {
    ...{ prefix, directory, binaries, etcd, server },
    namespace: place.namespace,
    api: server.api,
    get controllerManager() {
      return parts.manager;
    },
    addServer: () => addServer(parts),
    connect: (node) => connectNode(place.namespace, node),
    kubeconfig,
    kubectl: (args, stdin) =>
      kubectl(parts, kubeconfig({ identity: 'admin', from: 'here' }), args, stdin),
    place: workspace.place,
    forgetHistory: () => forgetHistory(parts),
    replaceStore: () => replaceStore(parts, server),
    remove: () => remove(parts),
  };
}

async function kubectl(
  { binaries, workspace }: Parts,
  kubeconfig: string,
  args: readonly string[],
  stdin = '',
): Promise<string> {
  const cache = join(workspace.directory, 'kubectl-cache');
  // A person's own preferences (~/.kube/kuberc) have no say here.
  const argv = ['KUBECTL_KUBERC=false', binaries.kubectl, '--kubeconfig', kubeconfig];
  const options = { stdin, timeoutMs: 60_000 };
  const { code, stdout, stderr } = await run(
    'env',
    [...argv, '--cache-dir', cache, ...args],
    options,
  );
  if (code === 0) return stdout;
  throw new Error(`kubectl ${args.join(' ')}: code ${code}: ${stderr.trim()}`);
}

async function forgetHistory({ etcd, servers }: Parts): Promise<number> {
  const running = servers.filter((server) => server.isRunning());
  await Promise.all(running.map((server) => server.kill()));
  const revision = await etcd.revision();
  await etcd.compact(revision);
  await Promise.all(running.map((server) => server.start()));
  return revision;
}

async function replaceStore(parts: Parts, server: ApiServer): Promise<void> {
  const { etcd, servers, manager } = parts;
  const running = servers.filter((each) => each.isRunning());
  await Promise.all([manager?.kill(), ...running.map((each) => each.kill())]);
  await etcd.wipe();
  await etcd.start();
  await Promise.all(running.map((each) => each.start()));
  if (manager !== undefined) startManager(parts, server);
}

async function remove({ workspace, servers, relay }: Parts): Promise<void> {
  await Promise.all(servers.map(({ api }) => api.close()));
  workspace.remove();
  await relay.close();
}
