// SPDX-License-Identifier: Apache-2.0
// A valid document with its defaults -> the Config record: what kube-proxy's settings mean to fairlead.
// Which section counts follows the mode, as in kube-proxy's conversion from v1alpha1
// (pkg/proxy/apis/config/v1alpha1/conversion.go).

import { shown } from '../lib/json.ts';
import type { PlanSettings } from '../plan/types.ts';
import {
  defaultHosts,
  type ListenAddress,
  nodeNameOf,
  parseListenAddress,
  realBindAddress,
  SHADOW_PORTS,
  withPort,
} from './addresses.ts';
import type { KubeProxyDocument } from './defaults.ts';
import type { Locate } from './diagnostics.ts';
import { parseDuration } from './duration.ts';
import { type OwnInput, ownSettings } from './file/fairlead-schema.ts';
import type { KubeProxyInput } from './file/schema.ts';
import type { FlagValues } from './flags/flags.ts';
import { ROWS, SETTINGS, serviceDefaults } from './settings/settings.ts';
import type {
  Config,
  ConntrackSettings,
  Diagnostic,
  Engine,
  LogSettings,
  SourceSettings,
} from './types.ts';

export interface Parts {
  readonly document: KubeProxyDocument;
  /** As written, without defaults. */
  readonly proxy: KubeProxyInput;
  readonly own: OwnInput;
  readonly flags: FlagValues;
  readonly hostname: string;
  readonly locate: Locate;
}

interface Findings {
  readonly problems: Diagnostic[];
  readonly warnings: Diagnostic[];
}

/** KEP-5707: with it off kube-proxy serves no spec.externalIPs. */
const EXTERNAL_IPS_GATE = 'AllowServiceExternalIPs';

const ms = (duration: string): number => parseDuration(duration) ?? 0;
const seconds = (duration: string): number => Math.floor(ms(duration) / 1000);

/** Linear in the settings. `problems` are invalid combinations: each field alone is valid. */
export function assemble(parts: Parts): {
  readonly config: Config;
  readonly problems: readonly Diagnostic[];
} {
  const { document, own, flags } = parts;
  const nodeName = nodeNameOf(document.hostnameOverride, parts.hostname);
  const findings: Findings = { problems: [], warnings: [] };
  checkCombinations(parts, nodeName, findings);
  const { iptables } = document;
  const rules = document.mode === 'nftables' ? document.nftables : iptables;
  const config: Config = {
    plan: planSettings(parts, nodeName),
    source: sourceOf(parts),
    engine: own.engine ?? engineOf(document.mode),
    servers: {
      healthz: listener(parts, 'healthz', findings),
      metrics: listener(parts, 'metrics', findings),
      isBindFailureFatal: document.bindAddressHardFail,
    },
    syncPeriodMs: ms(activeSection(document).syncPeriod),
    netfilter: {
      minSyncPeriodMs: ms(rules.minSyncPeriod),
      masqueradeBit: rules.masqueradeBit,
      localhostNodePorts: iptables.localhostNodePorts,
      snatNodeInternalIp: iptables.snatNodeInternalIP ?? false,
    },
    conntrack: conntrackSettings(document),
    oomScoreAdj: document.oomScoreAdj,
    log: logSettings(parts),
    own: ownSettings(own),
    actions: {
      writeConfigTo: flags['write-config-to'] || undefined,
      cleanup: isOn(flags['cleanup']),
      initOnly: isOn(flags['init-only']),
    },
    warnings: findings.warnings,
    document,
  };
  return { config, problems: findings.problems };
}

/** ipvs is no mode of ours. */
const engineOf = (mode: KubeProxyDocument['mode']): Engine =>
  mode === 'iptables' || mode === 'nftables' ? mode : 'auto';

function checkCombinations(
  { document, own, flags, locate }: Parts,
  nodeName: string,
  findings: Findings,
): void {
  if (nodeName === '') {
    const reason = 'must not be empty';
    findings.problems.push({ ...locate(['hostnameOverride']), reason });
  }
  if (own.shadow === true) checkShadow(own, findings);
  const engine = engineOf(document.mode);
  if (engine !== 'auto' && own.engine == null && own.shadow !== true) {
    const reason = `remapped: selects the ${engine} engine; leave it empty, or set engine, for bpf`;
    findings.warnings.push({ ...locate(['mode']), reason });
  }
  if (flags['vmodule'] !== undefined) {
    const reason = 'ignored: one log level applies to the whole agent';
    findings.warnings.push({ location: '', field: '--vmodule', reason });
  }
}

/** What would change the node: each is left out, or --shadow is. */
function checkShadow(own: OwnInput, { problems }: Findings): void {
  const { engine, ephemeral, takeOver } = own;
  const given = {
    engine: engine != null && engine !== 'auto',
    ...{ ephemeral, takeOver },
  };
  for (const [field, isGiven] of Object.entries(given)) {
    if (isGiven !== true) continue;
    const flag = ROWS.find(([name]) => name === field)?.[1].flag;
    const reason = `excludes --${flag}: it serves and changes nothing; leave one of them out`;
    problems.push({ location: '', field: '--shadow', reason });
  }
}

/** The flag is valid: what is not false is true. */
const isOn = (text: string | undefined): boolean =>
  text !== undefined && !['0', 'f', 'F', 'false', 'FALSE', 'False'].includes(text);

function activeSection({ mode, iptables, nftables, ipvs }: KubeProxyDocument) {
  if (mode === 'ipvs') return ipvs;
  return mode === 'nftables' ? nftables : iptables;
}

function planSettings({ document, own }: Parts, nodeName: string): PlanSettings {
  const { mode, detectLocal, nodePortAddresses } = document;
  const bindAddress = realBindAddress(document.bindAddress);
  // Unset means every local address, except in kube-proxy's nftables mode, which is stricter (KEP-3866).
  const isStrict = mode === 'nftables' && nodePortAddresses.length === 0;
  return {
    nodeName,
    detectLocalMode: document.detectLocalMode,
    clusterCidrs: document.clusterCIDR
      .split(',')
      .map((cidr) => cidr.trim())
      .filter((cidr) => cidr !== ''),
    ...(detectLocal.bridgeInterface !== '' && { podBridgeInterface: detectLocal.bridgeInterface }),
    ...(detectLocal.interfaceNamePrefix !== '' && {
      podInterfaceNamePrefix: detectLocal.interfaceNamePrefix,
    }),
    masqueradeAll: (mode === 'nftables' ? document.nftables : document.iptables).masqueradeAll,
    nodePortAddresses: isStrict ? ['primary'] : nodePortAddresses,
    ...(bindAddress !== undefined && { bindAddress }),
    allowExternalIps:
      own.allowExternalIPs ??
      document.featureGates[EXTERNAL_IPS_GATE] ??
      SETTINGS.allowExternalIPs.default,
    ...serviceDefaults(own),
  };
}

function sourceOf({ document, own, flags }: Parts): SourceSettings {
  if (own.manifests != null) {
    const removalDelayMs = ms(own.manifestsRemovalDelay ?? SETTINGS.manifestsRemovalDelay.default);
    return { kind: 'manifests', dir: own.manifests, removalDelayMs };
  }
  const { kubeconfig } = document.clientConnection;
  const master = flags['master'] ?? '';
  return {
    kind: 'api',
    kubeconfig: kubeconfig === '' ? undefined : kubeconfig,
    apiServers: [...(master === '' ? [] : [master]), ...(own.apiServers ?? [])],
  };
}

function conntrackSettings({ conntrack }: KubeProxyDocument): ConntrackSettings {
  return {
    maxPerCore: conntrack.maxPerCore,
    min: conntrack.min,
    tcpEstablishedSeconds: seconds(conntrack.tcpEstablishedTimeout),
    tcpCloseWaitSeconds: seconds(conntrack.tcpCloseWaitTimeout),
    tcpBeLiberal: conntrack.tcpBeLiberal,
    udpSeconds: seconds(conntrack.udpTimeout),
    udpStreamSeconds: seconds(conntrack.udpStreamTimeout),
  };
}

/** klog's level as ours: at 4 and above kube-proxy logs single objects. */
function logSettings({ document, proxy, own }: Parts): LogSettings {
  const format = proxy.logging?.format === 'text' ? 'text' : 'json';
  return {
    level: own.logLevel ?? (document.logging.verbosity >= 4 ? 'debug' : 'info'),
    format: own.logFormat ?? format,
  };
}

/** With --shadow those of the file, and the defaults, are those of the kube-proxy that runs. */
function configuredListener(
  { document, own, flags }: Parts,
  server: 'healthz' | 'metrics',
): string {
  const configured =
    server === 'healthz' ? document.healthzBindAddress : document.metricsBindAddress;
  if (own.shadow !== true || flags[`${server}-bind-address`] !== undefined) return configured;
  const { host } = parseListenAddress(configured) ?? {};
  const hosts = defaultHosts(document.bindAddress);
  return withPort(host ?? hosts[server], SHADOW_PORTS[server]);
}

/** An empty address flag, or 0 as the deprecated port flag, disables a server; a file cannot. */
function listener(
  parts: Parts,
  server: 'healthz' | 'metrics',
  findings: Findings,
): ListenAddress | undefined {
  const { document, flags } = parts;
  const isOff = flags[`${server}-bind-address`] === '';
  const portFlag = flags[`${server}-port`];
  const configured = configuredListener(parts, server);
  if (portFlag === undefined) return isOff ? undefined : parseListenAddress(configured);
  const named = { location: '', field: `--${server}-port` };
  findings.warnings.push({ ...named, reason: `deprecated: use --${server}-bind-address` });
  const port = Number(portFlag);
  if (!(port >= 0 && port <= 65535)) {
    const reason = `must be a port number from 0 to 65535, not ${shown(portFlag)}`;
    findings.problems.push({ ...named, reason });
  }
  if (isOff || port === 0) return undefined;
  // A bind address that was given has a port already, its own or the default one: kube-proxy keeps it too.
  if (flags[`${server}-bind-address`] !== undefined) return parseListenAddress(configured);
  return { host: defaultHosts(document.bindAddress)[server], port };
}
