// SPDX-License-Identifier: Apache-2.0
// One kube-apiserver: RBAC, static tokens, dual stack. Its address, port and URLs survive every restart.
import { join } from 'node:path';
import type { Sandbox } from '../../../../tools/lab/sandbox.ts';
import { type Api, connectApi } from '../objects/api.ts';
import { servicesPath, slicesPath } from '../objects/objects.ts';
import { type Program, startProgram, untilReady } from '../programs/program.ts';
import type { Relay } from '../programs/relay.ts';
import type { Certificates } from './certificates.ts';
import { ETCD_URL } from './etcd.ts';
import { TOKENS } from './identities.ts';
import { SERVER_ADDRESSES, SERVER_PORT, SERVICE_CIDRS } from './network.ts';

export interface ApiServer {
  /** How connected nodes reach it. */
  readonly nodeUrl: string;
  /** How this process and its children reach it, through loopback. */
  readonly localUrl: string;
  /** As admin, over `localUrl`. */
  readonly api: Api;
  /** Resolves when it is ready, Service `kubernetes` exists and a proxy may list. */
  start(): Promise<void>;
  /** Sends SIGTERM; the server closes watches cleanly. */
  stop(): Promise<void>;
  /** SIGKILL: every connection breaks. */
  kill(): Promise<void>;
  isRunning(): boolean;
  /** Connections stay open but get no answer until `resume`. */
  pause(): Promise<void>;
  resume(): void;
  tail(lines?: number): string;
  /** Closes our own connections to it. */
  close(): Promise<void>;
}

export interface ApiServerSpec {
  readonly sandbox: Sandbox;
  readonly binary: string;
  readonly certificates: Certificates;
  readonly directory: string;
  readonly relay: Relay;
  /** Index of its address, from 0. */
  readonly index: number;
  /** Additional flags; the last occurrence of a flag wins. */
  readonly flags: readonly string[];
}

export async function createApiServer(spec: ApiServerSpec): Promise<ApiServer> {
  const { sandbox, binary, certificates, relay, index } = spec;
  const address = SERVER_ADDRESSES[index];
  if (address === undefined) throw new Error(`no more than ${SERVER_ADDRESSES.length} API servers`);
  const localUrl = `https://127.0.0.1:${await relay.forward(address, SERVER_PORT)}`;
  const api = connectApi({ url: localUrl, ca: certificates.ca, token: TOKENS.admin });
  const proxy = connectApi({ url: localUrl, ca: certificates.ca, token: TOKENS.proxy });
  let program: Program | undefined;
  return {
    nodeUrl: `https://${address}:${SERVER_PORT}`,
    localUrl,
    api,
    start: async () => {
      if (program?.isRunning() === true) return;
      program = startProgram(sandbox, `kube-apiserver ${index}`, [binary, ...flags(spec, address)]);
      await untilReady(program, () => isUsable(api, proxy));
    },
    stop: async () => {
      await program?.stop();
    },
    close: async () => {
      await Promise.all([api.close(), proxy.close()]);
    },
    kill: async () => {
      await program?.kill();
    },
    isRunning: () => program?.isRunning() === true,
    pause: async () => {
      await program?.pause();
    },
    resume: () => program?.resume(),
    tail: (lines) => program?.tail(lines) ?? '',
  };
}

/**
 * More than readyz says: an API server makes Service `kubernetes` and its slice after it is ready, and its
 * authorizer learns of the roles it has made by watching, as everybody does. What is listed before is not
 * what is listed a moment later.
 */
async function isUsable(admin: Api, proxy: Api): Promise<boolean> {
  if ((await admin.text('/readyz')) !== 'ok') return false;
  await admin.text(`${servicesPath()}/kubernetes`);
  await admin.text(`${slicesPath()}/kubernetes`);
  await proxy.text('/api/v1/services?limit=1');
  return true;
}

function flags(spec: ApiServerSpec, address: string): string[] {
  const { certificates, directory } = spec;
  return [
    `--etcd-servers=${ETCD_URL}`,
    '--etcd-compaction-interval=0', // Tests compact explicitly; the default is every five minutes.
    `--bind-address=${address}`,
    `--advertise-address=${address}`,
    `--secure-port=${SERVER_PORT}`,
    `--tls-cert-file=${certificates.server.certificate}`,
    `--tls-private-key-file=${certificates.server.key}`,
    `--client-ca-file=${certificates.ca}`,
    `--token-auth-file=${join(directory, 'tokens.csv')}`,
    '--authorization-mode=RBAC',
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${certificates.serviceAccounts.publicKey}`,
    `--service-account-signing-key-file=${certificates.serviceAccounts.privateKey}`,
    `--service-cluster-ip-range=${SERVICE_CIDRS.join(',')}`,
    '--allow-privileged=true',
    '--profiling=false',
    ...spec.flags,
  ];
}
