// SPDX-License-Identifier: Apache-2.0
// Every flag of kube-proxy (cmd/kube-proxy/app/options.go), in the words of its manual, and the setting
// each one stands for. Flags that fairlead does not need are accepted, so that it starts with kube-proxy's arguments.
import { DETECT_LOCAL_MODES, MODES } from '../file/schema.ts';
import { always, type FlagRow, proxy } from './row.ts';

const NO_EFFECT_IPVS = 'no effect: fairlead does not use IPVS';
const NO_EFFECT_LOG = 'no effect: fairlead writes one log stream, unbuffered';
const NO_EFFECT_API = 'no effect: fairlead holds one watch per resource and does not poll';

const PROCESS_FLAGS: readonly FlagRow[] = [
  always(
    'config',
    'string',
    '',
    'path to the configuration file: a KubeProxyConfiguration, then optionally a FairleadConfiguration',
  ),
  always(
    'write-config-to',
    'string',
    '',
    'write the configuration with all defaults to this file and exit',
  ),
  always(
    'cleanup',
    'bool',
    '',
    'remove the programs, links, maps, iptables rules and files of this instance and exit',
  ),
  always(
    'init-only',
    'bool',
    '',
    'perform the initialization that needs full root privileges (sysctls) and exit',
  ),
  always(
    'master',
    'string',
    '',
    'address of the Kubernetes API server; overrides the value in the kubeconfig',
  ),
  always(
    'hostname-override',
    'string',
    'hostnameOverride',
    "name of the Node this agent runs on (default: the host's name)",
  ),
  {
    ...always('v', 'int', 'logging.verbosity', 'log level verbosity: 4 and above logs at debug'),
    short: 'v',
  },
  {
    ...always(
      'logging-format',
      'string',
      'logging.format',
      'log format: text or json (default json)',
    ),
    choices: ['text', 'json'],
  },
  always('log-flush-frequency', 'duration', 'logging.flushFrequency', NO_EFFECT_LOG),
  always('vmodule', 'string', '', 'no effect: one log level applies to the whole agent'),
  always('log-json-split-stream', 'bool', 'logging.options.json.splitStream', NO_EFFECT_LOG),
  always(
    'log-json-info-buffer-size',
    'string',
    'logging.options.json.infoBufferSize',
    NO_EFFECT_LOG,
  ),
  always('log-text-split-stream', 'bool', 'logging.options.text.splitStream', NO_EFFECT_LOG),
  always(
    'log-text-info-buffer-size',
    'string',
    'logging.options.text.infoBufferSize',
    NO_EFFECT_LOG,
  ),
  proxy(
    'kubeconfig',
    'string',
    'clientConnection.kubeconfig',
    'path to a kubeconfig file with authorization information (default: in-cluster)',
  ),
  proxy(
    'kube-api-content-type',
    'string',
    'clientConnection.contentType',
    'no effect: objects are requested as JSON',
  ),
  proxy('kube-api-qps', 'float', 'clientConnection.qps', NO_EFFECT_API),
  proxy('kube-api-burst', 'int', 'clientConnection.burst', NO_EFFECT_API),
  proxy(
    'bind-address',
    'string',
    'bindAddress',
    "overrides the node's primary IP of its family; no socket is bound to it (default 0.0.0.0)",
  ),
  proxy(
    'bind-address-hard-fail',
    'bool',
    'bindAddressHardFail',
    'treat failure to bind to a port as fatal and exit',
  ),
  proxy(
    'healthz-bind-address',
    'string',
    'healthzBindAddress',
    'IP address and port of the health check server; empty disables it (default 0.0.0.0:10256, which is every address of the node, IPv6 too)',
  ),
  proxy(
    'metrics-bind-address',
    'string',
    'metricsBindAddress',
    'IP address and port of the metrics server; empty disables it (default 127.0.0.1:10249)',
  ),
  proxy('healthz-port', 'int', '', 'deprecated: use --healthz-bind-address; 0 disables the server'),
  proxy('metrics-port', 'int', '', 'deprecated: use --metrics-bind-address; 0 disables the server'),
  proxy('profiling', 'bool', 'enableProfiling', 'no effect: there is no pprof handler'),
  proxy(
    'show-hidden-metrics-for-version',
    'string',
    'showHiddenMetricsForVersion',
    'no effect: no metric is hidden',
  ),
  proxy(
    'feature-gates',
    'boolMap',
    'featureGates',
    'only AllowServiceExternalIPs=false has an effect: as --external-ips=false',
  ),
  proxy(
    'config-sync-period',
    'duration',
    'configSyncPeriod',
    'no effect: watches deliver every change; see --audit-interval',
  ),
  proxy(
    'oom-score-adj',
    'int',
    'oomScoreAdj',
    'OOM score adjustment of this process, from -1000 to 1000 (default -999)',
  ),
];

const SERVICE_FLAGS: readonly FlagRow[] = [
  {
    ...proxy(
      'proxy-mode',
      'string',
      'mode',
      'iptables and nftables mean that --engine, ipvs means auto',
    ),
    choices: MODES.filter((mode) => mode !== ''),
  },
  proxy(
    'iptables-masquerade-bit',
    'int',
    'iptables.masqueradeBit',
    'bit of the fwmark that marks packets requiring SNAT, from 0 to 31 (default 14)',
  ),
  proxy(
    'masquerade-all',
    'bool',
    'iptables.masqueradeAll nftables.masqueradeAll',
    'SNAT all traffic sent via Service cluster IPs',
  ),
  proxy(
    'iptables-localhost-nodeports',
    'bool',
    'iptables.localhostNodePorts',
    'accept NodePort connections on 127.0.0.1 (default true; iptables engine only)',
  ),
  proxy(
    'iptables-sync-period',
    'duration',
    'iptables.syncPeriod nftables.syncPeriod',
    'how often the iptables engine checks that its rules are there. A change that is not programmed after twice this time fails /healthz (default 30s)',
  ),
  proxy(
    'iptables-min-sync-period',
    'duration',
    'iptables.minSyncPeriod nftables.minSyncPeriod',
    'iptables engine: minimum time between two writes of rules; bpf programs every change at once (default 1s)',
  ),
  proxy(
    'ipvs-sync-period',
    'duration',
    'ipvs.syncPeriod',
    'as --iptables-sync-period, with --proxy-mode=ipvs',
  ),
  proxy('ipvs-min-sync-period', 'duration', 'ipvs.minSyncPeriod', NO_EFFECT_IPVS),
  proxy('ipvs-scheduler', 'string', 'ipvs.scheduler', 'no effect: see --algorithm'),
  proxy('ipvs-exclude-cidrs', 'list', 'ipvs.excludeCIDRs', NO_EFFECT_IPVS),
  proxy('ipvs-strict-arp', 'bool', 'ipvs.strictARP', NO_EFFECT_IPVS),
  proxy('ipvs-tcp-timeout', 'duration', 'ipvs.tcpTimeout', NO_EFFECT_IPVS),
  proxy('ipvs-tcpfin-timeout', 'duration', 'ipvs.tcpFinTimeout', NO_EFFECT_IPVS),
  proxy('ipvs-udp-timeout', 'duration', 'ipvs.udpTimeout', NO_EFFECT_IPVS),
  {
    ...proxy(
      'detect-local-mode',
      'string',
      'detectLocalMode',
      'how local traffic is detected: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix',
    ),
    choices: DETECT_LOCAL_MODES,
  },
  proxy(
    'pod-bridge-interface',
    'string',
    'detectLocal.bridgeInterface',
    'with --detect-local-mode=BridgeInterface: traffic from this bridge is local',
  ),
  proxy(
    'pod-interface-name-prefix',
    'string',
    'detectLocal.interfaceNamePrefix',
    'with --detect-local-mode=InterfaceNamePrefix: traffic from these interfaces is local',
  ),
  proxy(
    'cluster-cidr',
    'string',
    'clusterCIDR',
    'CIDR range of the pods in the cluster; for dual-stack, a pair separated by a comma',
  ),
  proxy(
    'nodeport-addresses',
    'list',
    'nodePortAddresses',
    "CIDR ranges of node IPs that accept NodePort connections, or 'primary', 'localhost', 'all' (default: all local IPs)",
  ),
  proxy(
    'conntrack-max-per-core',
    'int',
    'conntrack.maxPerCore',
    "maximum number of connections to track per CPU core (default 32768; 0 keeps the kernel's)",
  ),
  proxy(
    'conntrack-min',
    'int',
    'conntrack.min',
    'minimum number of conntrack entries, regardless of --conntrack-max-per-core (default 131072)',
  ),
  proxy(
    'conntrack-tcp-timeout-established',
    'duration',
    'conntrack.tcpEstablishedTimeout',
    "conntrack timeout of established TCP connections (default 24h; 0 keeps the kernel's)",
  ),
  proxy(
    'conntrack-tcp-timeout-close-wait',
    'duration',
    'conntrack.tcpCloseWaitTimeout',
    "conntrack timeout of TCP connections in CLOSE_WAIT (default 1h; 0 keeps the kernel's)",
  ),
  proxy(
    'conntrack-tcp-be-liberal',
    'bool',
    'conntrack.tcpBeLiberal',
    'track TCP packets outside the window too (nf_conntrack_tcp_be_liberal)',
  ),
  proxy(
    'conntrack-udp-timeout',
    'duration',
    'conntrack.udpTimeout',
    "conntrack timeout of unreplied UDP connections (default 0: keeps the kernel's)",
  ),
  proxy(
    'conntrack-udp-timeout-stream',
    'duration',
    'conntrack.udpStreamTimeout',
    "conntrack timeout of assured UDP connections (default 0: keeps the kernel's)",
  ),
];

export const KUBE_PROXY_FLAGS: readonly FlagRow[] = [...PROCESS_FLAGS, ...SERVICE_FLAGS];
