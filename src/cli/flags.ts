// SPDX-License-Identifier: Apache-2.0
// The flags that describe an instance, shared by every command, and what they mean as settings.
// Names and defaults are kube-proxy's where kube-proxy has them.
import { hostname } from 'node:os';
import { type Command, InvalidArgumentError, Option } from 'commander';
import ipaddr from 'ipaddr.js';
import { FairleadError } from '../errors.ts';
import type { PlanSettings } from '../plan/types.ts';

export const DEFAULT_BPF_ROOT = '/sys/fs/bpf/fairlead';
export const DEFAULT_RUN_DIR = '/run/fairlead';

const DETECT_LOCAL_MODES = [
  'ClusterCIDR',
  'NodeCIDR',
  'BridgeInterface',
  'InterfaceNamePrefix',
] as const;

/** What the instance flags parse to. */
export interface InstanceOptions {
  readonly hostnameOverride?: string;
  readonly clusterCidr: readonly string[];
  readonly detectLocalMode: (typeof DETECT_LOCAL_MODES)[number];
  readonly podBridgeInterface?: string;
  readonly podInterfaceNamePrefix?: string;
  readonly masqueradeAll: boolean;
  readonly nodeportAddresses: readonly string[];
  readonly bindAddress?: string;
  readonly externalIps: boolean;
}

/** Flags that decide what a Service means on this node: `run` and `explain` take the same ones. */
export function addInstanceFlags(command: Command): Command {
  return command
    .option('--hostname-override <name>', 'name of this Node object (default: the host name)')
    .option(
      '--cluster-cidr <cidrs>',
      'pod addresses of the cluster, at most one prefix a family',
      cidrList,
      [],
    )
    .addOption(
      new Option('--detect-local-mode <mode>', 'how a pod of this cluster is recognised')
        .choices(DETECT_LOCAL_MODES)
        .default('ClusterCIDR'),
    )
    .option('--pod-bridge-interface <name>', 'for detect-local-mode BridgeInterface')
    .option('--pod-interface-name-prefix <prefix>', 'for detect-local-mode InterfaceNamePrefix')
    .option(
      '--masquerade-all',
      "replace the client's address on every connection to a ClusterIP",
      false,
    )
    .option(
      '--nodeport-addresses <list>',
      'CIDRs or primary, localhost, all (default: all local addresses)',
      commaList,
      [],
    )
    .option('--bind-address <address>', "replaces the Node object's address of its family", address)
    .option('--no-external-ips', 'ignore spec.externalIPs (CVE-2020-8554)');
}

/** Throws BAD_OPTION where flags contradict each other. */
export function planSettings(options: InstanceOptions): PlanSettings {
  const nodeName = (options.hostnameOverride ?? hostname()).trim().toLowerCase();
  if (nodeName === '') {
    throw new FairleadError('BAD_OPTION', '--hostname-override must not be empty');
  }
  requireFor(options, 'BridgeInterface', options.podBridgeInterface, '--pod-bridge-interface');
  requireFor(
    options,
    'InterfaceNamePrefix',
    options.podInterfaceNamePrefix,
    '--pod-interface-name-prefix',
  );
  const { bindAddress } = options;
  const isReal = bindAddress !== undefined && bindAddress !== '0.0.0.0' && bindAddress !== '::';
  return {
    nodeName,
    detectLocalMode: options.detectLocalMode,
    clusterCidrs: options.clusterCidr,
    ...(options.podBridgeInterface && { podBridgeInterface: options.podBridgeInterface }),
    ...(options.podInterfaceNamePrefix && {
      podInterfaceNamePrefix: options.podInterfaceNamePrefix,
    }),
    masqueradeAll: options.masqueradeAll,
    nodePortAddresses: options.nodeportAddresses,
    ...(isReal && { bindAddress }),
    allowExternalIps: options.externalIps,
  };
}

function requireFor(
  options: InstanceOptions,
  mode: InstanceOptions['detectLocalMode'],
  value: string | undefined,
  flag: string,
): void {
  if (options.detectLocalMode === mode && (value ?? '') === '') {
    throw new FairleadError('BAD_OPTION', `--detect-local-mode ${mode} needs ${flag}`);
  }
}

export function commaList(value: string): readonly string[] {
  return value
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

function cidrList(value: string): readonly string[] {
  const cidrs = commaList(value);
  for (const cidr of cidrs) {
    if (!ipaddr.isValidCIDR(cidr))
      throw new InvalidArgumentError(`${cidr} is not a CIDR such as 10.1.0.0/16`);
  }
  return cidrs;
}

function address(value: string): string {
  if (!ipaddr.isValid(value)) throw new InvalidArgumentError(`${value} is not an IP address`);
  return value;
}

/** `10m`, `30s`, `250ms`, `1h` -> milliseconds, at least one. */
export function durationMs(value: string): number {
  const parts = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(value);
  const unitMs = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }[parts?.[2] ?? ''];
  const ms = Math.round(Number(parts?.[1]) * (unitMs ?? Number.NaN));
  if (!Number.isFinite(ms) || ms < 1) {
    throw new InvalidArgumentError(`${value} is not a duration such as 30s, 10m or 1h`);
  }
  return ms;
}
