// SPDX-License-Identifier: Apache-2.0
// Every flag of kube-proxy (cmd/kube-proxy/app/options.go) and of our own, and the setting each one
// stands for: the process here, what a Service means in flag-services.ts.
import { always, type FlagRow, own, proxy } from './row.ts';
import { SERVICE_FLAGS } from './services.ts';

const GENERAL: readonly FlagRow[] = [
  always(
    'config',
    'text',
    '',
    "kube-proxy's configuration file, ours beside it as a second document",
  ),
  always(
    'write-config-to',
    'text',
    '',
    'write the settings with all defaults to this file, and end',
  ),
  always('cleanup', 'bool', '', 'take away what earlier runs left in the kernel, and end'),
  always('init-only', 'bool', '', 'do what needs full root (sysctls), and end'),
  always('master', 'text', '', "address of the API server, before the kubeconfig's"),
  always(
    'hostname-override',
    'text',
    'hostnameOverride',
    'name of this Node object (default: the host name)',
  ),
  { ...always('v', 'whole', 'logging.verbosity', 'log level: 4 and above is debug'), short: 'v' },
  always('logging-format', 'text', 'logging.format', 'text or json'),
  always(
    'log-flush-frequency',
    'duration',
    'logging.flushFrequency',
    'no effect: lines are written at once',
  ),
  always('vmodule', 'text', '', 'no effect: one level holds for the whole agent'),
  always('log-json-split-stream', 'bool', 'logging.options.json.splitStream', 'no effect'),
  always('log-json-info-buffer-size', 'text', 'logging.options.json.infoBufferSize', 'no effect'),
  always('log-text-split-stream', 'bool', 'logging.options.text.splitStream', 'no effect'),
  always('log-text-info-buffer-size', 'text', 'logging.options.text.infoBufferSize', 'no effect'),
  proxy('kubeconfig', 'text', 'clientConnection.kubeconfig', 'credentials (default: in-cluster)'),
  proxy(
    'kube-api-content-type',
    'text',
    'clientConnection.contentType',
    'no effect: objects are read as JSON',
  ),
  proxy('kube-api-qps', 'number', 'clientConnection.qps', 'requests to the API server in a second'),
  proxy('kube-api-burst', 'whole', 'clientConnection.burst', 'requests to the API server at once'),
  proxy('bind-address', 'text', 'bindAddress', "replaces the Node object's address of its family"),
  proxy('bind-address-hard-fail', 'bool', 'bindAddressHardFail', 'end if a port cannot be bound'),
  proxy(
    'healthz-bind-address',
    'text',
    'healthzBindAddress',
    'health server (default 0.0.0.0:10256; empty: none)',
  ),
  proxy(
    'metrics-bind-address',
    'text',
    'metricsBindAddress',
    'metrics server (default 127.0.0.1:10249; empty: none)',
  ),
  proxy('healthz-port', 'whole', '', 'deprecated: use --healthz-bind-address; 0: none'),
  proxy('metrics-port', 'whole', '', 'deprecated: use --metrics-bind-address; 0: none'),
  proxy('profiling', 'bool', 'enableProfiling', 'no effect: there are no pprof pages'),
  proxy(
    'show-hidden-metrics-for-version',
    'text',
    'showHiddenMetricsForVersion',
    'no effect: no metric is hidden',
  ),
  proxy('feature-gates', 'switches', 'featureGates', 'no effect: there are no feature gates'),
  proxy(
    'config-sync-period',
    'duration',
    'configSyncPeriod',
    'how often all objects are listed again (default 15m)',
  ),
  proxy('oom-score-adj', 'whole', 'oomScoreAdj', 'of this process (default -999)'),
];

const OWN: readonly FlagRow[] = [
  own('manifests', 'text', 'manifests', 'folder of manifests to follow instead of an API server'),
  own('api-server', 'list', 'apiServers', 'URLs of API servers, tried in this order'),
  own('engine', 'text', 'engine', 'auto, bpf or iptables (default auto)'),
  own(
    'cgroup-root',
    'text',
    'cgroupRoot',
    'cgroup v2 directory whose sockets are translated (default: the whole hierarchy)',
  ),
  own(
    'bpf-root',
    'text',
    'bpfRoot',
    'folder on a bpf file system for maps and links (default /sys/fs/bpf/fairlead)',
  ),
  own('run-dir', 'text', 'runDir', 'socket and state (default /run/fairlead)'),
  own(
    'map-size',
    'sizes',
    'mapSizes',
    'e.g. frontends=65536,backends=131072 (also service-ports, slot-blocks, affinity)',
  ),
  own(
    'audit-interval',
    'duration',
    'auditInterval',
    'how often the kernel is read back and repaired (default 10m)',
  ),
  own(
    'external-ips',
    'bool',
    'allowExternalIPs',
    'serve spec.externalIPs (default true; CVE-2020-8554)',
  ),
  own('log-level', 'text', 'logLevel', 'debug, info, warn or error'),
  own('log-format', 'text', 'logFormat', 'json or text'),
  own(
    'metrics-top-services',
    'whole',
    'metricsTopServices',
    'Services with counters of their own on /metrics (default 0)',
  ),
];

export const FLAGS: readonly FlagRow[] = [...GENERAL, ...SERVICE_FLAGS, ...OWN];
