// SPDX-License-Identifier: Apache-2.0
// The components of a control plane, and the operations that concern all of them. Tests use `ControlPlane`.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Sandbox } from '../../../../tools/lab/sandbox.ts';
import type { Binaries } from '../programs/binaries.ts';
import type { Program } from '../programs/program.ts';
import { openRelay, type Relay } from '../programs/relay.ts';
import { type ApiServer, createApiServer } from './api-server.ts';
import { type Certificates, makeCertificates } from './certificates.ts';
import { startControllerManager } from './controller-manager.ts';
import { createEtcd, type Etcd } from './etcd.ts';
import { writeKubeconfig, writeTokens } from './identities.ts';
import { makePlaneNetwork, SERVER_ADDRESSES } from './network.ts';
import type { Workspace } from './workspace.ts';

const SERVER_NAMES = ['kubernetes', 'kubernetes.default', 'kubernetes.default.svc', 'localhost'];

export interface PlaneOptions {
  /** Additional flags of every API server. */
  readonly apiServerFlags?: readonly string[];
  /** `none`: the only EndpointSlices are those a test writes. `all`: for nodes with a kubelet. */
  readonly controllers?: 'services' | 'none' | 'all';
}

export interface Parts {
  readonly workspace: Workspace;
  readonly binaries: Binaries;
  readonly options: PlaneOptions;
  readonly certificates: Certificates;
  readonly sandbox: Sandbox;
  readonly relay: Relay;
  readonly etcd: Etcd;
  readonly servers: ApiServer[];
  manager: Program | undefined;
}

/** Creates keys, network and files; starts nothing. */
export async function makeParts(
  workspace: Workspace,
  binaries: Binaries,
  options: PlaneOptions,
): Promise<Parts> {
  const { prefix, directory } = workspace;
  const sandbox = workspace.sandbox('plane', `${prefix}-plane`);
  const addresses = [...SERVER_ADDRESSES, '127.0.0.1', '10.96.0.1', 'fd00:96::1'];
  const [certificates] = await Promise.all([
    makeCertificates(join(directory, 'keys'), addresses, SERVER_NAMES),
    makePlaneNetwork(sandbox.namespace),
  ]);
  writeTokens(join(directory, 'tokens.csv'));
  mkdirSync(kubeconfigFolder({ workspace }));
  const relay = openRelay(sandbox);
  const etcd = await createEtcd(sandbox, binaries.etcd, join(directory, 'etcd'), relay);
  const kept = { workspace, binaries, options, certificates, sandbox, relay, etcd };
  return { ...kept, servers: [], manager: undefined };
}

export function kubeconfigFolder({ workspace }: Pick<Parts, 'workspace'>): string {
  return join(workspace.directory, 'kubeconfigs');
}

export async function addServer(parts: Parts): Promise<ApiServer> {
  const { sandbox, certificates, relay, servers } = parts;
  const added = await createApiServer({
    ...{ sandbox, certificates, relay },
    binary: parts.binaries.apiServer,
    directory: parts.workspace.directory,
    index: servers.length,
    flags: [...admissionFlags(parts.options), ...(parts.options.apiServerFlags ?? [])],
  });
  servers.push(added);
  await added.start();
  return added;
}

/** Without kubelets pods are only objects, so creating one must not wait for a service account. */
const admissionFlags = ({ controllers }: PlaneOptions): readonly string[] =>
  controllers === 'all' ? [] : ['--disable-admission-plugins=ServiceAccount'];

export function startManager(parts: Parts, server: ApiServer): void {
  if (parts.options.controllers === 'none') return;
  const { sandbox, certificates, workspace, binaries } = parts;
  const { directory } = workspace;
  const kubeconfig = writeKubeconfig(kubeconfigFolder(parts), certificates, {
    identity: 'admin',
    server: server.nodeUrl,
  });
  const binary = binaries.controllerManager;
  const controllers = parts.options.controllers ?? 'services';
  const spec = { sandbox, binary, certificates, directory, kubeconfig, controllers };
  parts.manager = startControllerManager(spec);
}

export async function forgetHistory({ etcd, servers }: Parts): Promise<number> {
  const running = servers.filter((server) => server.isRunning());
  await Promise.all(running.map((server) => server.kill()));
  const revision = await etcd.revision();
  await etcd.compact(revision);
  await Promise.all(running.map((server) => server.start()));
  return revision;
}

export async function replaceStore(parts: Parts, server: ApiServer): Promise<void> {
  const { etcd, servers, manager } = parts;
  const running = servers.filter((each) => each.isRunning());
  await Promise.all([manager?.kill(), ...running.map((each) => each.kill())]);
  await etcd.wipe();
  await etcd.start();
  await Promise.all(running.map((each) => each.start()));
  if (manager !== undefined) startManager(parts, server);
}

export async function remove({ workspace, servers, relay }: Parts): Promise<void> {
  await Promise.all(servers.map((server) => server.close()));
  workspace.remove();
  await relay.close();
}
