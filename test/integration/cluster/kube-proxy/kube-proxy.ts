// SPDX-License-Identifier: Apache-2.0
// The real kube-proxy in a node's namespace, in iptables or nftables mode, for comparison. It changes no
// machine-wide setting.
import { mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { request } from 'undici';
import { run } from '../../../../src/sys/exec.ts';
import { insideSandbox, type Sandbox } from '../../../../tools/lab/sandbox.ts';
import type { NodeHost } from '../../../../tools/lab/wiring.ts';
import type { ControlPlane, KubeconfigRequest } from '../control-plane/control-plane.ts';
import { ensurePackages } from '../programs/packages.ts';
import { type Program, startProgram, untilReady } from '../programs/program.ts';
import { openRelay } from '../programs/relay.ts';

const PACKAGES = ['iptables', 'nftables', 'conntrack'];
const HEALTH_PORT = 10256;
const METRICS_PORT = 10249;
const LAST_SYNC = /^kubeproxy_sync_proxy_rules_last_timestamp_seconds(?:\{.*\})? (\S+)$/gm;

/** These settings are machine-wide, not per namespace: 0 leaves them unchanged. */
export const LEAVE_MACHINE_ALONE: readonly string[] = [
  '--conntrack-max-per-core=0',
  '--conntrack-min=0',
  '--conntrack-tcp-timeout-established=0s',
  '--conntrack-tcp-timeout-close-wait=0s',
  '--oom-score-adj=0',
];

export interface KubeProxyOptions {
  readonly mode: 'iptables' | 'nftables';
  /** Which kernel interface iptables uses; kube-proxy runs the one it finds first in PATH. */
  readonly iptables?: 'legacy' | 'nft';
  readonly credentials?: Partial<KubeconfigRequest>;
  readonly flags?: readonly string[];
}

export interface KubeProxy {
  readonly program: Program;
  /** URL for this process: `/healthz`. */
  readonly healthUrl: string;
  /** URL for this process: `/metrics`, `/proxyMode`. */
  readonly metricsUrl: string;
  /** Stops it; its rules stay, as they always do. */
  stop(): Promise<void>;
  /** Stops it and removes its rules. */
  remove(): Promise<void>;
}

/** Installs the programs kube-proxy runs. Returns the reason if that is impossible; tests are then skipped. */
export async function prepareKubeProxy(): Promise<string | undefined> {
  const reason = await ensurePackages(PACKAGES);
  if (reason !== undefined) process.stderr.write(`\n=== kube-proxy tests SKIPPED: ${reason}\n\n`);
  return reason;
}

/**
 * Starts kube-proxy as the node `node.name` of the API and returns when it has synced once. The node must
 * be connected, and its Node object must exist.
 */
export async function startKubeProxy(
  plane: ControlPlane,
  node: NodeHost,
  options: KubeProxyOptions,
): Promise<KubeProxy> {
  const sandbox = plane.sandbox(`kube-proxy on ${node.name}`, node.namespace);
  const path = `${makeToolFolder(plane, options.iptables ?? 'legacy')}:${process.env['PATH'] ?? ''}`;
  const kubeProxy = ['env', `PATH=${path}`, plane.binaries.kubeProxy];
  const relay = openRelay(sandbox);
  const healthUrl = `http://127.0.0.1:${await relay.forward('127.0.0.1', HEALTH_PORT)}`;
  const metricsUrl = `http://127.0.0.1:${await relay.forward('127.0.0.1', METRICS_PORT)}`;
  const program = startProgram(sandbox, sandbox.name, [
    ...kubeProxy,
    ...flags(plane, node, options),
  ]);
  const stop = async (): Promise<void> => {
    await program.stop();
    await relay.close();
  };
  try {
    await untilReady(program, () => hasSynced(metricsUrl));
  } catch (error) {
    await stop();
    throw error;
  }
  const remove = async (): Promise<void> => {
    await stop();
    await cleanUp(sandbox, [...kubeProxy, `--proxy-mode=${options.mode}`, '--cleanup']);
  };
  return { program, healthUrl, metricsUrl, stop, remove };
}

function flags(plane: ControlPlane, node: NodeHost, options: KubeProxyOptions): string[] {
  const kubeconfig = plane.kubeconfig({ identity: 'proxy', from: 'node', ...options.credentials });
  return [
    `--kubeconfig=${kubeconfig}`,
    `--hostname-override=${node.name}`,
    `--proxy-mode=${options.mode}`,
    `--healthz-bind-address=127.0.0.1:${HEALTH_PORT}`,
    `--metrics-bind-address=127.0.0.1:${METRICS_PORT}`,
    ...LEAVE_MACHINE_ALONE,
    ...(options.flags ?? []),
  ];
}

/** A folder to put first in PATH, where `iptables` and related commands are of one variant. */
export function makeToolFolder(
  { directory }: Pick<ControlPlane, 'directory'>,
  kind: 'legacy' | 'nft',
): string {
  const folder = join(directory, `iptables-${kind}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  for (const name of ['iptables', 'ip6tables'].flatMap((tool) =>
    ['', '-save', '-restore'].map((suffix) => tool + suffix),
  )) {
    symlinkSync(`/usr/sbin/xtables-${kind}-multi`, join(folder, name));
  }
  return folder;
}

/** Its health check succeeds before the first sync; its metrics list a family after that family's first sync. */
async function hasSynced(metricsUrl: string): Promise<boolean> {
  const { body } = await request(`${metricsUrl}/metrics`);
  const times = (await body.text()).matchAll(LAST_SYNC);
  const seconds = [...times].map(([, value]) => Number(value));
  return seconds.length === 2 && seconds.every((value) => value > 0);
}

async function cleanUp(sandbox: Sandbox, argv: readonly string[]): Promise<void> {
  const [shell = 'sh', ...args] = insideSandbox(sandbox, argv);
  const { code, stderr } = await run(shell, args, { timeoutMs: 60_000 });
  if (code !== 0) throw new Error(`kube-proxy --cleanup: code ${code}: ${stderr.trim()}`);
}
