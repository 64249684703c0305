// SPDX-License-Identifier: Apache-2.0

import { expect, test } from 'vitest';
import { ownSchema } from '../../../src/config/file/fairlead-schema.ts';
import { configText, configz } from '../../../src/config/file/write.ts';
import type { Setting } from '../../../src/config/settings/row.ts';
import { ROWS } from '../../../src/config/settings/settings.ts';
import { parseYaml, parseYamls } from '../../support/yaml.ts';
import { fromFile, fromFlags, HEAD, KUBEADM, OWN_HEAD, warningsOf } from './configs.ts';

/** Of those that are no choice, each with another value than its default. */
const VALUES: Readonly<Record<string, string>> = {
  manifests: '/m',
  manifestsRemovalDelay: '5s',
  apiServers: '[https://10.0.0.1]',
  ephemeral: 'true',
  shadow: 'true',
  shadowWait: '5s',
  switchAnyway: 'true',
  takeOver: 'true',
  readyFile: '/f',
  cgroupRoot: '/c',
  bpfRoot: '/b',
  runDir: '/r',
  historyDir: '/h',
  historySize: '8',
  cniConfDir: '/n',
  mapSizes:
    '{frontends: 1, backends: 2, servicePorts: 3, slotBlocks: 4, affinity: 5, sourceRanges: 6, flows: 7}',
  devices: "[auto, '!docker*']",
  xdp: "[native, 'eth1=off']",
  nftablesOffload: "[auto, '!wg*']",
  auditInterval: '5m0s',
  allowExternalIPs: 'false',
  directReturnSecretFile: '/s',
  resetTCPConnections: 'true',
  answerPing: 'true',
  nodePortBindProtection: 'false',
  metricsTopServices: '7',
};

const isUsual = (row: Setting, value: string): boolean =>
  value === (row.default ?? row.defaultText);

const fieldsOf = (rows: typeof ROWS): string =>
  OWN_HEAD +
  rows
    .map(([field, row]) => {
      const value = VALUES[field] ?? row.choices?.findLast((choice) => !isUsual(row, choice));
      return `${field}: ${value}\n`;
    })
    .join('');

const EVERY_OWN_FIELD = fieldsOf(ROWS);
/** `shadow` excludes others. */
const SHADOW = ROWS.filter(([field]) => field.startsWith('shadow'));
const OTHERS = ROWS.filter((row) => !SHADOW.includes(row));

test('the row with every field of ours has every one', () => {
  expect(Object.keys(parseYaml(EVERY_OWN_FIELD))).toEqual(Object.keys(ownSchema.shape));
});

test('the written file means the same as its origin', () => {
  for (const config of [
    fromFlags({
      'cluster-cidr': '10.0.0.0/8',
      'map-size': 'service-ports=9',
      'log-format': 'text',
    }),
    fromFile(KUBEADM),
    fromFile(
      `${HEAD}bindAddress: fd00::1\nmode: ipvs\nipvs: {excludeCIDRs: [10.0.0.0/8]}\nhostnameOverride: "0777"\n---\n${OWN_HEAD}apiServers: [https://10.0.0.1]\ncgroupRoot: /c\n`,
    ),
    fromFlags({ manifests: '/m', 'external-ips': 'false' }),
    fromFile(`${HEAD}---\n${fieldsOf(OTHERS)}`),
    fromFile(`${HEAD}---\n${fieldsOf(SHADOW)}`),
  ]) {
    const again = fromFile(configText(config));
    expect({ ...again, warnings: warningsOf(again).length }).toEqual({
      ...config,
      warnings: warningsOf(config).length,
    });
  }
});

test("with nothing set, every one of kube-proxy's defaults is written", () => {
  const [first = ''] = configText(fromFlags({})).split('---\n');
  expect(first).toBe(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 10
  contentType: application/vnd.kubernetes.protobuf
  kubeconfig: ""
  qps: 5
clusterCIDR: ""
configSyncPeriod: 15m0s
conntrack:
  maxPerCore: 32768
  min: 131072
  tcpBeLiberal: false
  tcpCloseWaitTimeout: 1h0m0s
  tcpEstablishedTimeout: 24h0m0s
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ClusterCIDR
enableProfiling: false
featureGates: {}
healthzBindAddress: 0.0.0.0:10256
hostnameOverride: ""
iptables:
  localhostNodePorts: true
  masqueradeAll: false
  masqueradeBit: 14
  minSyncPeriod: 1s
  syncPeriod: 30s
ipvs:
  excludeCIDRs: []
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 30s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 5s
  format: text
  verbosity: 0
metricsBindAddress: 127.0.0.1:10249
mode: ""
nftables:
  masqueradeAll: false
  masqueradeBit: 14
  minSyncPeriod: 1s
  syncPeriod: 30s
nodePortAddresses: []
oomScoreAdj: -999
portRange: ""
showHiddenMetricsForVersion: ""
`);
});

test('strings that YAML 1.1 would read as numbers or booleans are quoted', () => {
  for (const name of ['0777', 'yes', '1e3', 'on']) {
    const text = configText(fromFlags({ 'hostname-override': name }));
    expect(text).toContain(`\nhostnameOverride: "${name}"\n`);
  }
});

test('kube-proxy stays the first document, and configz shows both', () => {
  const config = fromFlags({ manifests: '/m' });
  const kinds = parseYamls<{ kind: string }>(configText(config)).map(({ kind }) => kind);
  expect(kinds).toEqual(['KubeProxyConfiguration', 'FairleadConfiguration']);
  const pages = configz(config);
  expect(Object.keys(pages)).toEqual(['kubeproxy.config.k8s.io', 'fairlead.io']);
  expect(pages['kubeproxy.config.k8s.io']).toMatchObject({
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    configSyncPeriod: '15m0s',
  });
});
