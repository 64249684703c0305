// SPDX-License-Identifier: Apache-2.0
// A real control plane for tests, in its own network namespace: etcd, one or more API servers, a controller
// manager. `startControlPlane` starts one within seconds; `remove` removes everything.
import { join } from 'node:path';
import { run } from '../../../../src/sys/exec.ts';
import type { Sandbox } from '../../../../tools/lab/sandbox.ts';
import type { Api } from '../objects/api.ts';
import type { Binaries } from '../programs/binaries.ts';
import type { Program } from '../programs/program.ts';
import type { ApiServer } from './api-server.ts';
import type { Certificates } from './certificates.ts';
import type { Etcd } from './etcd.ts';
import { type KubeconfigSpec, writeKubeconfig } from './identities.ts';
import { connectNode, type PlaneNode } from './network.ts';
import {
  addServer,
  forgetHistory,
  kubeconfigFolder,
  makeParts,
  type Parts,
  type PlaneOptions,
  remove,
  replaceStore,
  startManager,
} from './parts.ts';
import { openWorkspace } from './workspace.ts';

export interface KubeconfigRequest extends Omit<KubeconfigSpec, 'server'> {
  /** Who connects: `node` for programs in connected nodes, `here` for this process and its children. */
  readonly from: 'node' | 'here';
  readonly server?: ApiServer;
}

export interface ControlPlane {
  readonly prefix: string;
  readonly namespace: string;
  readonly directory: string;
  readonly binaries: Binaries;
  readonly certificates: Certificates;
  readonly etcd: Etcd;
  /** The first API server; the controller manager uses it. */
  readonly server: ApiServer;
  /** As admin, of the first API server. */
  readonly api: Api;
  readonly controllerManager: Program | undefined;
  /** Starts one more API server on the same etcd. */
  addServer(): Promise<ApiServer>;
  /** Connects a node's namespace to the API servers; call it before starting programs that need them. */
  connect(node: PlaneNode): Promise<void>;
  /** Writes a kubeconfig and returns its path. */
  kubeconfig(request: KubeconfigRequest): string;
  /** Runs kubectl as admin; returns its stdout, throws its stderr. */
  kubectl(args: readonly string[], stdin?: string): Promise<string>;
  /** A sandbox for a program that is removed together with this control plane. */
  sandbox(name: string, namespace: string): Sandbox;
  /**
   * Makes every older resource version expire (410): compacts etcd, and restarts the running API servers,
   * whose watch caches remember on their own. Returns the revision where history begins.
   */
  forgetHistory(): Promise<number>;
  /** Replaces the store by an empty one; addresses, keys and tokens stay. As if etcd were lost without a backup. */
  replaceStore(): Promise<void>;
  remove(): Promise<void>;
}

/** Resolves when the first API server is ready. On failure it removes what it has created. */
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

function asControlPlane(parts: Parts, server: ApiServer): ControlPlane {
  const { workspace, binaries, certificates, sandbox, etcd } = parts;
  const { prefix, directory } = workspace;
  const kubeconfig = (request: KubeconfigRequest): string =>
    writePlaneKubeconfig(parts, server, request);
  return {
    ...{ prefix, directory, binaries, certificates, etcd, server },
    namespace: sandbox.namespace,
    api: server.api,
    get controllerManager() {
      return parts.manager;
    },
    addServer: () => addServer(parts),
    connect: (node) => connectNode(sandbox.namespace, node),
    kubeconfig,
    kubectl: (args, stdin) =>
      kubectl(parts, kubeconfig({ identity: 'admin', from: 'here' }), args, stdin),
    sandbox: workspace.sandbox,
    forgetHistory: () => forgetHistory(parts),
    replaceStore: () => replaceStore(parts, server),
    remove: () => remove(parts),
  };
}

function writePlaneKubeconfig(
  parts: Parts,
  first: ApiServer,
  { from, server = first, ...spec }: KubeconfigRequest,
): string {
  const url = from === 'node' ? server.nodeUrl : server.localUrl;
  return writeKubeconfig(kubeconfigFolder(parts), parts.certificates, { ...spec, server: url });
}

async function kubectl(
  { binaries, workspace }: Parts,
  kubeconfig: string,
  args: readonly string[],
  stdin = '',
): Promise<string> {
  const cache = join(workspace.directory, 'kubectl-cache');
  // The user's preferences (~/.kube/kuberc) are ignored.
  const argv = ['KUBECTL_KUBERC=false', binaries.kubectl, '--kubeconfig', kubeconfig];
  const options = { stdin, timeoutMs: 300_000 };
  const { code, stdout, stderr } = await run(
    'env',
    [...argv, '--cache-dir', cache, ...args],
    options,
  );
  if (code === 0) return stdout;
  // What a program says that it runs in a container may be on stdout.
  throw new Error(`kubectl ${args.join(' ')}: code ${code}: ${`${stderr}${stdout}`.trim()}`);
}
