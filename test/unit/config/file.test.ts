// SPDX-License-Identifier: Apache-2.0
// KubeProxyConfiguration files: what is accepted, and what is rejected at which line.
import { describe, expect, test } from 'vitest';
import { fromFile, HEAD, KUBEADM, OWN_HEAD, problemsOf, warningsOf } from './configs.ts';

test("kubeadm's file gives kube-proxy's defaults, without a warning", () => {
  const config = fromFile(KUBEADM);
  expect(warningsOf(config)).toEqual([]);
  expect(config).toMatchObject({
    plan: {
      nodeName: 'node-a',
      detectLocalMode: 'ClusterCIDR',
      clusterCidrs: ['10.244.0.0/16', 'fd00:10:244::/56'],
      masqueradeAll: false,
      nodePortAddresses: [],
      allowExternalIps: true,
    },
    source: {
      kind: 'api',
      kubeconfig: '/var/lib/kube-proxy/kubeconfig.conf',
      apiServers: [],
    },
    engine: 'auto',
    servers: {
      healthz: { host: '0.0.0.0', port: 10256 },
      metrics: { host: '127.0.0.1', port: 10249 },
      isBindFailureFatal: false,
    },
    syncPeriodMs: 30_000,
    netfilter: { masqueradeBit: 14, localhostNodePorts: true, snatNodeInternalIp: false },
    conntrack: {
      maxPerCore: 32_768,
      min: 131_072,
      tcpEstablishedSeconds: 86_400,
      tcpCloseWaitSeconds: 3600,
      tcpBeLiberal: false,
      udpSeconds: 0,
      udpStreamSeconds: 0,
    },
    oomScoreAdj: -999,
    log: { level: 'info', format: 'json' },
  });
  expect(config.plan).not.toHaveProperty('bindAddress');
});

describe('errors name the field and its line', () => {
  const rows: readonly { name: string; text: string; says: readonly string[] }[] = [
    {
      name: 'an unknown key',
      text: `${HEAD}clusterCidr: 10.0.0.0/8\n`,
      says: ['c.yaml:3: clusterCidr: unknown field: check its spelling and its section'],
    },
    {
      name: 'an unknown key in a section, beside a wrong type: both',
      text: `${HEAD}conntrack:\n  max: 5\n  min: 1.5\n`,
      says: [
        'c.yaml:5: conntrack.min: must be an integer, not 1.5',
        'c.yaml:4: conntrack.max: unknown field: check its spelling and its section',
      ],
    },
    {
      name: 'a number instead of a string',
      text: `${HEAD}hostnameOverride: 12\n`,
      says: ['c.yaml:3: hostnameOverride: must be a string (quote it), not 12'],
    },
    {
      name: 'a scalar instead of a section',
      text: `${HEAD}iptables: yes\n`,
      says: ['c.yaml:3: iptables: must be a mapping, not "yes"'],
    },
    {
      name: 'a duration without unit',
      text: `${HEAD}iptables:\n  syncPeriod: "30"\n`,
      says: [
        'c.yaml:4: iptables.syncPeriod: must be a duration such as 30s, 1m30s or 15m0s, not "30"',
      ],
    },
    {
      name: 'a value of neither of two types',
      text: `${HEAD}logging:\n  flushFrequency: 5 s\n  options: {json: {infoBufferSize: true}}\n`,
      says: [
        'c.yaml:4: logging.flushFrequency: must be a duration such as 5s, or integer nanoseconds, not "5 s"',
        'c.yaml:5: logging.options.json.infoBufferSize: must be a size such as "64Ki", or an integer, not true',
      ],
    },
    {
      name: 'a mode of another system',
      text: `${HEAD}mode: kernelspace\n`,
      says: ['c.yaml:3: mode: must be "", iptables, ipvs or nftables, not "kernelspace"'],
    },
    {
      name: 'an item of a list',
      text: `${HEAD}nodePortAddresses:\n- 10.0.0.0/8\n- some\n`,
      says: [
        'c.yaml:5: nodePortAddresses[1]: must be a CIDR or primary, localhost, all, not "some"',
      ],
    },
    {
      name: 'a duplicate kind',
      text: `${HEAD}---\n${HEAD}`,
      says: ['c.yaml:5: KubeProxyConfiguration: occurs twice in this file: keep one of them'],
    },
    {
      name: 'our document before the only one kube-proxy reads',
      text: `${OWN_HEAD}---\n${HEAD}`,
      says: [
        'c.yaml:5: KubeProxyConfiguration: must be the first document: kube-proxy reads no other',
      ],
    },
    {
      name: 'a foreign kind',
      text: 'apiVersion: v1\nkind: ConfigMap\n',
      says: [
        'c.yaml:2: kind: must be KubeProxyConfiguration or FairleadConfiguration, not "ConfigMap"',
      ],
    },
    {
      name: 'an unsupported apiVersion',
      text: 'apiVersion: kubeproxy.config.k8s.io/v1\nkind: KubeProxyConfiguration\n',
      says: [
        'c.yaml:1: apiVersion: of a KubeProxyConfiguration must be kubeproxy.config.k8s.io/v1alpha1, not "kubeproxy.config.k8s.io/v1"',
      ],
    },
    {
      name: 'a duplicate key',
      text: `${HEAD}mode: ""\nmode: iptables\n`,
      says: ['c.yaml:4: is not YAML: duplicated mapping key'],
    },
    {
      name: 'a document that is a list',
      text: '- 1\n',
      says: ['c.yaml:1: must be a mapping, not a list'],
    },
    {
      name: 'no document at all',
      text: '# nothing\n',
      says: ['c.yaml: holds no KubeProxyConfiguration'],
    },
    {
      name: 'Windows settings that are set',
      text: `${HEAD}winkernel:\n  enableDSR: true\nwindowsRunAsService: true\n`,
      says: [
        'c.yaml:4: winkernel.enableDSR: is for Windows: fairlead runs on Linux only',
        'c.yaml:5: windowsRunAsService: is for Windows: fairlead runs on Linux only',
      ],
    },
    {
      name: 'invalid settings of fairlead',
      text: `${HEAD}---\n${OWN_HEAD}mapSizes:\n  frontends: 0\napiServers: [10.0.0.1]\nlogLevel: loud\n`,
      says: [
        'c.yaml:8: apiServers[0]: must be a URL such as https://10.0.0.1:6443, not "10.0.0.1"',
        'c.yaml:7: mapSizes.frontends: must be at least 1, not 0',
        'c.yaml:9: logLevel: must be debug, info, warn or error, not "loud"',
      ],
    },
  ];
  test.each(rows)('$name', ({ text, says }) => {
    expect(problemsOf(() => fromFile(text)).toSorted()).toEqual([...says].toSorted());
  });
});

const badValues: readonly (readonly [yaml: string, says: string])[] = [
  ['bindAddress: here', 'bindAddress: must be an IP address, not "here"'],
  [
    'healthzBindAddress: here:80',
    'healthzBindAddress: must be an IP address and a port such as 127.0.0.1:10249, not "here:80"',
  ],
  [
    'metricsBindAddress: 127.0.0.1:0',
    'metricsBindAddress: must be an IP address and a port such as 127.0.0.1:10249, not "127.0.0.1:0"',
  ],
  ['oomScoreAdj: -1001', 'oomScoreAdj: must be a number from -1000 to 1000, not -1001'],
  ['configSyncPeriod: -1s', 'configSyncPeriod: must be longer than 0s, not "-1s"'],
  ['clientConnection: {burst: -1}', 'clientConnection.burst: must not be negative, not -1'],
  ['iptables: {masqueradeBit: 32}', 'iptables.masqueradeBit: must be a bit from 0 to 31, not 32'],
  [
    'iptables: {minSyncPeriod: 31s}',
    'iptables.minSyncPeriod: must not be longer than iptables.syncPeriod, which is 30s',
  ],
  ['conntrack: {maxPerCore: -1}', 'conntrack.maxPerCore: must not be negative, not -1'],
  ['conntrack: {udpTimeout: -1s}', 'conntrack.udpTimeout: must not be negative, not "-1s"'],
  ['clusterCIDR: 10.0.0.0', 'clusterCIDR: must be CIDRs such as 10.1.0.0/16, not "10.0.0.0"'],
  [
    'clusterCIDR: 10.0.0.0/8,11.0.0.0/8',
    'clusterCIDR: must have at most one CIDR per family, not "10.0.0.0/8,11.0.0.0/8"',
  ],
  [
    'detectLocalMode: BridgeInterface',
    'detectLocal.bridgeInterface: must be set for detectLocalMode BridgeInterface',
  ],
  [
    'detectLocalMode: InterfaceNamePrefix',
    'detectLocal.interfaceNamePrefix: must be set for detectLocalMode InterfaceNamePrefix',
  ],
  ['logging: {format: xml}', 'logging.format: must be text or json, not "xml"'],
  [
    'showHiddenMetricsForVersion: latest',
    'showHiddenMetricsForVersion: must be a version such as 1.36, not "latest"',
  ],
  ['hostnameOverride: "  "', 'hostnameOverride: must not be empty'],
  ['nodePortAddresses: [all, all]', 'nodePortAddresses[1]: must not have all twice'],
  ['ipvs: {excludeCIDRs: [x]}', 'ipvs.excludeCIDRs[0]: must be a CIDR, not "x"'],
];
test.each(badValues)('the value of %s is rejected', (yaml, says) => {
  const [problem = ''] = problemsOf(() => fromFile(`${HEAD}${yaml}\n`));
  expect(problem.replace(/^c\.yaml:\d+: /, '')).toBe(says);
});

const warnings: readonly (readonly [yaml: string, says: readonly string[]])[] = [
  [
    'mode: ipvs',
    [
      'mode: remapped to auto: fairlead has no such engine, and auto means bpf where the node can do it; kube-proxy ends mode ipvs, by default in Kubernetes 1.40 and for good in 1.43',
    ],
  ],
  [
    'mode: nftables\nnodePortAddresses: [all]',
    ['mode: remapped: selects the nftables engine; leave it empty, or set engine, for bpf'],
  ],
  [
    'mode: iptables',
    ['mode: remapped: selects the iptables engine; leave it empty, or set engine, for bpf'],
  ],
  ['enableProfiling: true', ['enableProfiling: ignored: there is no pprof handler']],
  [
    'portRange: 1-2',
    ['portRange: ignored: only the userspace mode, removed in Kubernetes 1.26, used it'],
  ],
  [
    'iptables: {minSyncPeriod: 2s}',
    ['iptables.minSyncPeriod: ignored by the bpf engine: every change is programmed at once'],
  ],
  ['iptables: {localhostNodePorts: true}', []],
  [
    'clientConnection: {qps: 50, burst: 10}',
    ['clientConnection.qps: ignored: fairlead holds one watch per resource and does not poll'],
  ],
  [
    'configSyncPeriod: 5m',
    [
      'configSyncPeriod: ignored: watches deliver every change; auditInterval says how often the kernel is read back',
    ],
  ],
  ['configSyncPeriod: 15m', []],
  [
    'ipvs: {strictARP: true, scheduler: rr}',
    [
      'ipvs.scheduler: ignored: see algorithm in FairleadConfiguration',
      'ipvs.strictARP: ignored: fairlead does not use IPVS',
    ],
  ],
  [
    'featureGates: {A: true, B: false}',
    [
      'featureGates.A: ignored: fairlead has no feature gates',
      'featureGates.B: ignored: fairlead has no feature gates',
    ],
  ],
  [
    'featureGates: {AllowServiceExternalIPs: false, KubeProxyIPVS: true, KubeProxyNFTablesLocalhostNodePorts: true, NFTablesNetlink: true}',
    [
      'featureGates.KubeProxyIPVS: ignored: fairlead does not use IPVS',
      'featureGates.KubeProxyNFTablesLocalhostNodePorts: ignored: nodePortAddresses alone says whether NodePorts answer at loopback addresses',
      'featureGates.NFTablesNetlink: ignored: the nftables engine runs nft',
    ],
  ],
  ['clientConnection: {contentType: application/json}', []],
  ['clientConnection: {contentType: application/vnd.kubernetes.protobuf}', []],
  ['iptables: {minSyncPeriod: 1s}', []],
  [
    'clientConnection: {contentType: text/html}',
    ['clientConnection.contentType: ignored: objects are requested as JSON'],
  ],
];
test.each(warnings)('%s is accepted with a warning', (yaml, says) => {
  const warnings = warningsOf(fromFile(`${HEAD}${yaml}\n`));
  expect(warnings.map((text) => text.replace(/^c\.yaml:3: /, ''))).toEqual(says);
});

test.each([
  [
    'cgroupRoot: /c',
    ['cgroupRoot: ignored by the iptables engine: its rules see every packet of the node'],
  ],
  ['mapSizes: {flows: 9}', ['mapSizes: ignored by the iptables engine: it has no maps']],
  ['devices: [auto]', []],
  [
    'devices: [none]',
    ['devices: ignored by the iptables engine: its rules see every packet of the node'],
  ],
  [
    'hostFirewall: ignore',
    ['hostFirewall: ignored by the iptables engine: its rules are behind every filter'],
  ],
  ['tcOrder: inner', ['tcOrder: ignored by the iptables engine: it attaches no programs']],
  [
    'socketScope: host',
    ['socketScope: ignored by the iptables engine: its rules see every packet of the node'],
  ],
  ['socketScope: auto', []],
  ['nftablesOffload: [off]', []],
  [
    'nftablesOffload: [auto]',
    ['nftablesOffload: ignored by the iptables engine: it has no flowtable'],
  ],
  ['xdp: [off]', []],
  ['xdp: [auto]', ['xdp: ignored by the iptables engine: it attaches no programs']],
  [
    'resetTCPConnections: true',
    [
      'resetTCPConnections: ignored by the iptables engine: TCP connections are left to end by themselves',
    ],
  ],
  ['answerPing: true', ['answerPing: ignored by the iptables engine: pings are not answered']],
  [
    'nodePortBindProtection: true',
    [
      'nodePortBindProtection: ignored by the iptables engine: processes of the node can bind NodePorts',
    ],
  ],
  ['nodePortBindProtection: false', []],
  ['algorithm: weighted-random', []],
  [
    'externalAlgorithm: maglev',
    [
      'externalAlgorithm: ignored by the iptables engine: clients from outside get backends as others do',
    ],
  ],
  [
    'algorithm: source-hash',
    [
      'algorithm: remapped by the iptables engine, which chooses at random, by weight if the algorithm weighs',
    ],
  ],
  ['forwarding: snat', []],
  [
    'forwarding: hybrid',
    ['forwarding: remapped by the iptables engine, which always masquerades: snat'],
  ],
  [
    'metricsTopServices: 3',
    ['metricsTopServices: ignored by the iptables engine: connections are not counted'],
  ],
])(
  'a setting of the bpf engine, %s, is accepted with a warning by iptables alone',
  (yaml, says) => {
    const warned = (engine: string): readonly string[] =>
      warningsOf(fromFile(`${OWN_HEAD}engine: ${engine}\n${yaml}\n`)).map((text) =>
        text.replace(/^c\.yaml:\d+: /, ''),
      );
    expect(warned('iptables')).toEqual(says);
    expect(warned('auto')).toEqual([]);
  },
);

test.each([
  ['iptables: {minSyncPeriod: 2s}', 2_000],
  ['nftables: {minSyncPeriod: 2s}', 1_000],
  ['mode: nftables\nnftables: {minSyncPeriod: 2s}', 2_000],
])('the time between two writes of rules is that of the section of the mode: %s', (yaml, ms) => {
  expect(fromFile(`${HEAD}${yaml}\n`).netfilter.minSyncPeriodMs).toBe(ms);
});

test('every value is used', () => {
  const { document, ...config } = fromFile(`${HEAD}bindAddress: 10.0.0.9
bindAddressHardFail: true
clientConnection: {kubeconfig: /k, qps: 1.5, burst: 3}
clusterCIDR: " 10.0.0.0/8 , fd00::/8"
configSyncPeriod: 20m
conntrack:
  maxPerCore: 1
  min: 2
  tcpEstablishedTimeout: 3s
  tcpCloseWaitTimeout: 4s
  tcpBeLiberal: true
  udpTimeout: 5s
  udpStreamTimeout: 1m6s
detectLocal: {bridgeInterface: br0, interfaceNamePrefix: veth}
detectLocalMode: NodeCIDR
healthzBindAddress: 10.0.0.1:1
hostnameOverride: N2
iptables: {masqueradeBit: 7, masqueradeAll: true, localhostNodePorts: false, snatNodeInternalIP: true, syncPeriod: 8s}
metricsBindAddress: "[::]:2"
nodePortAddresses: [localhost, 10.0.0.0/8]
oomScoreAdj: 0
`);
  expect(config).toMatchObject({
    plan: {
      nodeName: 'n2',
      detectLocalMode: 'NodeCIDR',
      clusterCidrs: ['10.0.0.0/8', 'fd00::/8'],
      podBridgeInterface: 'br0',
      podInterfaceNamePrefix: 'veth',
      masqueradeAll: true,
      nodePortAddresses: ['localhost', '10.0.0.0/8'],
      bindAddress: '10.0.0.9',
    },
    source: { kind: 'api', kubeconfig: '/k' },
    servers: {
      healthz: { host: '10.0.0.1', port: 1 },
      metrics: { host: '::', port: 2 },
      isBindFailureFatal: true,
    },
    syncPeriodMs: 8000,
    netfilter: { masqueradeBit: 7, localhostNodePorts: false, snatNodeInternalIp: true },
    conntrack: {
      maxPerCore: 1,
      min: 2,
      tcpEstablishedSeconds: 3,
      tcpCloseWaitSeconds: 4,
      tcpBeLiberal: true,
      udpSeconds: 5,
      udpStreamSeconds: 66,
    },
    oomScoreAdj: 0,
  });
  expect(document.iptables.snatNodeInternalIP).toBe(true);
});

test('anchors and merges of YAML are followed', () => {
  const text = `${HEAD}iptables: &both {syncPeriod: 9s}\nnftables: {<<: *both, masqueradeBit: 3}\n`;
  const { nftables } = fromFile(text).document;
  expect([nftables.syncPeriod, nftables.masqueradeBit]).toEqual(['9s', 3]);
  const [problem] = problemsOf(() => fromFile(`${HEAD}iptables: *nobody\n`));
  expect(problem).toBe('c.yaml:3: is not YAML: unidentified alias "nobody"');
  const [endless] = problemsOf(() => fromFile(`${HEAD}iptables: &all {all: *all}\n`));
  expect(endless).toMatch(/^c\.yaml: is not YAML: aliases expand to more than the file holds/);
});

describe('what settings mean', () => {
  const of = (yaml: string, own = '') =>
    fromFile(`${HEAD}${yaml}\n${own === '' ? '' : `---\n${OWN_HEAD}${own}\n`}`);

  test('mode iptables asks for that engine, unless ours says otherwise', () => {
    expect(of('mode: iptables').engine).toBe('iptables');
    const both = of('mode: iptables', 'engine: bpf');
    expect(both.engine).toBe('bpf');
    expect(warningsOf(both)).toEqual([]);
  });

  test('AllowServiceExternalIPs of kube-proxy is honoured, unless ours says otherwise', () => {
    const gated = 'featureGates: {AllowServiceExternalIPs: false}';
    expect(of('').plan.allowExternalIps).toBe(true);
    expect(of('featureGates: {AllowServiceExternalIPs: true}').plan.allowExternalIps).toBe(true);
    expect(of(gated).plan.allowExternalIps).toBe(false);
    expect(of(gated, 'allowExternalIPs: true').plan.allowExternalIps).toBe(true);
  });

  test('mode nftables has its own section, and serves NodePorts only on primary addresses', () => {
    const sections =
      'iptables: {masqueradeBit: 1, syncPeriod: 1m}\nnftables: {masqueradeBit: 2, masqueradeAll: true, syncPeriod: 2m}\n';
    const nft = of(`mode: nftables\n${sections}`);
    expect(nft.plan.nodePortAddresses).toEqual(['primary']);
    expect([nft.netfilter.masqueradeBit, nft.plan.masqueradeAll, nft.syncPeriodMs]).toEqual([
      2,
      true,
      120_000,
    ]);
    const plain = of(sections);
    expect(plain.plan.nodePortAddresses).toEqual([]);
    expect([plain.netfilter.masqueradeBit, plain.plan.masqueradeAll, plain.syncPeriodMs]).toEqual([
      1,
      false,
      60_000,
    ]);
    expect(of('mode: nftables\nnodePortAddresses: [all]').plan.nodePortAddresses).toEqual(['all']);
  });

  test('an IPv6 bind address moves the servers to its family and is part of the plan', () => {
    const config = of('bindAddress: "FD00::1"');
    expect(config.plan.bindAddress).toBe('fd00::1');
    expect(config.servers.healthz).toEqual({ host: '::', port: 10256 });
    expect(config.servers.metrics).toEqual({ host: '::1', port: 10249 });
  });

  test('verbosity 4 is debug; an explicit text format is text; our settings take precedence', () => {
    expect(of('logging: {verbosity: 3}').log).toEqual({ level: 'info', format: 'json' });
    expect(of('logging: {verbosity: 4, format: text}').log).toEqual({
      level: 'debug',
      format: 'text',
    });
    expect(
      of('logging: {verbosity: 4, format: text}', 'logLevel: warn\nlogFormat: json').log,
    ).toEqual({ level: 'warn', format: 'json' });
  });

  test('zero leaves conntrack alone, while a zero period means the default', () => {
    const config = of(
      'conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s}\niptables: {syncPeriod: 0s}',
    );
    expect(config.conntrack).toMatchObject({ maxPerCore: 0, tcpEstablishedSeconds: 0 });
    expect(config.syncPeriodMs).toBe(30_000);
  });

  test('our document: every setting', () => {
    const config = of(
      '',
      `engine: bpf
ephemeral: true
switchAnyway: true
takeOver: true
readyFile: /f
manifests: /m
cgroupRoot: /c
bpfRoot: /b
runDir: /r
cniConfDir: /n
devices: ['eth*', '!eth9']
hostFirewall: ignore
tcOrder: inner
socketScope: host
xdp: [auto, 'eth*=native']
nftablesOffload: [auto, '!wg*']
mapSizes: {frontends: 1, backends: 2, servicePorts: 3, slotBlocks: 4, affinity: 5, sourceRanges: 6, flows: 7}
auditInterval: 90s
allowExternalIPs: false
algorithm: weighted-random
forwarding: dsr
directReturnSecretFile: /s
externalAlgorithm: maglev
sourceRangesScope: all
resetTCPConnections: true
answerPing: true
nodePortBindProtection: false
metricsTopServices: 7`,
    );
    expect(config.own).toEqual({
      isEphemeral: true,
      shadow: undefined,
      switchesAnyway: true,
      takesOver: true,
      readyFile: '/f',
      directReturnSecretFile: '/s',
      cgroupRoot: '/c',
      bpfRoot: '/b',
      runDir: '/r',
      history: { dir: undefined, maxMiB: 64 },
      cniConfDir: '/n',
      devices: ['eth*', '!eth9'],
      hostFirewall: 'ignore',
      tcOrder: 'inner',
      socketScope: 'host',
      xdp: ['auto', 'eth*=native'],
      nftablesOffload: ['auto', '!wg*'],
      mapSizes: {
        frontends: 1,
        backends: 2,
        'service-ports': 3,
        'slot-blocks': 4,
        affinity: 5,
        'source-ranges': 6,
        flows: 7,
      },
      protectsNodePorts: false,
      auditIntervalMs: 90_000,
      resetsTcp: true,
      answersPing: true,
      metricsTopServices: 7,
    });
    expect(config.source).toEqual({ kind: 'manifests', dir: '/m', removalDelayMs: 30_000 });
    expect(config.plan.allowExternalIps).toBe(false);
    expect(config.plan.algorithm).toBe('weighted-random');
    expect(config.plan.forwarding).toBe('dsr');
    expect(config.plan.externalAlgorithm).toBe('maglev');
    expect(config.plan.sourceRangesScope).toBe('all');
  });
});
