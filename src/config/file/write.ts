// SPDX-License-Identifier: Apache-2.0
// A Config as text. kube-proxy itself would start with the first document; ours follows, and kube-proxy
// does not read it.
import { sortedYaml } from '../../lib/yaml/write.ts';
import { formatDuration } from '../duration.ts';
import type { Config } from '../types.ts';
import { OWN_API, OWN_KIND } from './fairlead-schema.ts';

/** --write-config-to: both documents with every default, keys sorted as kube-proxy sorts them. */
export function configText(config: Config): string {
  return `${sortedYaml(config.document)}---\n${sortedYaml(ownDocument(config))}`;
}

function ownDocument({
  engine,
  source,
  own,
  log,
  plan,
}: Config): Readonly<Record<string, unknown>> {
  const sizes = Object.entries(own.mapSizes).map(([name, size]) => [
    name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    size,
  ]);
  return {
    apiVersion: OWN_API,
    kind: OWN_KIND,
    engine,
    ...(source.kind === 'manifests' && {
      manifests: source.dir,
      manifestsRemovalDelay: formatDuration(source.removalDelayMs),
    }),
    ...(source.kind === 'api' && source.apiServers.length > 0 && { apiServers: source.apiServers }),
    ...(own.cgroupRoot !== undefined && { cgroupRoot: own.cgroupRoot }),
    ...(own.isEphemeral && { ephemeral: true }),
    ...(own.takesOver && { takeOver: true }),
    ...(own.readyFile !== undefined && { readyFile: own.readyFile }),
    bpfRoot: own.bpfRoot,
    runDir: own.runDir,
    cniConfDir: own.cniConfDir,
    ...(sizes.length > 0 && { mapSizes: Object.fromEntries(sizes) }),
    devices: own.devices,
    hostFirewall: own.hostFirewall,
    tcOrder: own.tcOrder,
    socketScope: own.socketScope,
    xdp: own.xdp,
    auditInterval: formatDuration(own.auditIntervalMs),
    allowExternalIPs: plan.allowExternalIps,
    algorithm: plan.algorithm ?? 'random',
    forwarding: plan.forwarding ?? 'snat',
    ...(own.directReturnSecretFile !== undefined && {
      directReturnSecretFile: own.directReturnSecretFile,
    }),
    externalAlgorithm: plan.externalAlgorithm ?? plan.algorithm ?? 'random',
    sourceRangesScope: plan.sourceRangesScope ?? 'LoadBalancer',
    resetTCPConnections: own.resetsTcp,
    answerPing: own.answersPing,
    nodePortBindProtection: own.protectsNodePorts,
    logLevel: log.level,
    logFormat: log.format,
    metricsTopServices: own.metricsTopServices,
  };
}

/** /configz: the versioned form under kube-proxy's key, as since Kubernetes 1.36; ours beside it. */
export function configz(config: Config): Readonly<Record<string, unknown>> {
  const { document } = config;
  const buffer = { infoBufferSize: '0' };
  return {
    'kubeproxy.config.k8s.io': {
      ...document,
      logging: { options: { text: buffer, json: buffer }, ...document.logging },
      winkernel: WINDOWS,
    },
    'fairlead.io': ownDocument(config),
  };
}

/** Shown, because kube-proxy shows it on every platform; a file that sets any of it is rejected. */
const WINDOWS = {
  networkName: '',
  sourceVip: '',
  enableDSR: false,
  rootHnsEndpointName: '',
  forwardHealthCheckVip: false,
};
