// SPDX-License-Identifier: Apache-2.0
// Settings of the agent: where Services come from, which engine serves them, and where its files are.
import { z } from 'zod';
import { formatDuration, isInterval, parseDuration } from '../duration.ts';
import { duration } from '../file/schema.ts';
import { DEFAULT_BPF_ROOT, DEFAULT_CNI_FOLDER, DEFAULT_RUN_DIR } from '../instance-paths.ts';
import { ALL_PACKETS, bool, choice, type Setting, text } from './row.ts';

export const AGENT_SETTINGS = {
  manifests: {
    flag: 'manifests',
    ...text,
    help: 'follow a folder of Service, EndpointSlice and Node manifests instead of an API server',
    doc: 'folder of manifests to follow instead of an API server',
    written: ({ source }) => (source.kind === 'manifests' ? source.dir : undefined),
  },
  manifestsRemovalDelay: {
    flag: 'manifests-removal-delay',
    type: 'duration',
    schema: duration.refine(
      (value) => isInterval(value) || parseDuration(value) === 0,
      'must be 0s, or from 100ms to 576h',
    ),
    default: '30s',
    help: 'how long a change of the folder waits if it would remove or empty most of ten or more Services (0s: no wait; default 30s)',
    doc: 'how long a change waits if it would remove or empty more than half of ten or more Services: 0s, or 100ms to 576h. Empty means without an address or an endpoint. A restart begins the wait anew; after a reboot nothing waits',
    written: ({ source }) =>
      source.kind === 'manifests' ? formatDuration(source.removalDelayMs) : undefined,
  },
  apiServers: {
    flag: 'api-server',
    type: 'list',
    schema: z.array(z.url({ protocol: /^https?$/ })),
    help: 'URLs of API servers, tried in this order',
    doc: "URLs, tried in this order before the kubeconfig's. Needed where the pod's environment names only a ClusterIP, which nobody serves before fairlead does",
    written: ({ source }) =>
      source.kind === 'api' && source.apiServers.length > 0 ? source.apiServers : undefined,
  },
  engine: {
    flag: 'engine',
    ...choice(['auto', 'bpf', 'iptables', 'nftables', 'userspace']),
    defaultText: 'auto',
    help: 'dataplane: bpf, iptables, nftables, userspace (sockets of the agent, no privilege needed), or auto: bpf, and rules for what this node cannot do with eBPF (default auto)',
    doc: '`auto`, `bpf`, `iptables`, `nftables` or `userspace`: see [the mode](#the-mode-and-what-proxymode-says)',
    written: ({ engine }) => engine,
  },
  ephemeral: {
    flag: 'ephemeral',
    ...bool,
    default: false,
    help: 'remove everything from the kernel when the agent stops (default: traffic keeps flowing)',
    doc: 'remove everything from the kernel when the agent stops',
    written: ({ own }) => own.isEphemeral || undefined,
  },
  shadow: {
    flag: 'shadow',
    ...bool,
    default: false,
    help: 'serve nothing and change nothing: compare what would be served with the rules of the kube-proxy that runs, and tell what differs',
    doc: 'serve nothing, change nothing, and [compare with the kube-proxy that runs](install.md#shadow)',
    written: ({ own }) => own.shadow !== undefined || undefined,
  },
  shadowWait: {
    flag: 'shadow-wait',
    type: 'duration',
    schema: duration.refine(isInterval, 'must be from 100ms to 576h'),
    default: '10s',
    help: 'with --shadow: how long kube-proxy may take to write a change (default 10s)',
    doc: 'with `shadow`: how long kube-proxy may take to write a change',
    written: ({ own }) => own.shadow && formatDuration(own.shadow.waitMs),
  },
  switchAnyway: {
    flag: 'switch-anyway',
    ...bool,
    default: false,
    help: 'start although an agent with --shadow has found Services that would be served in another way (default: such a start is refused)',
    doc: 'start although an agent with `shadow` has found Services that would be served in another way',
    written: ({ own }) => own.switchesAnyway || undefined,
  },
  takeOver: {
    flag: 'take-over',
    ...bool,
    default: false,
    help: 'take over from an agent that runs with the same --run-dir. That agent continues until this one serves, and its ports are answered all the time (default: such an agent is an error)',
    doc: 'continue an agent that runs with the same `runDir`: see [take-over](#take-over)',
    written: ({ own }) => own.takesOver || undefined,
  },
  readyFile: {
    flag: 'ready-file',
    ...text,
    help: 'file that is there while this agent is ready: for probes that must not be answered by another one',
    doc: 'file that is there while this agent is ready',
    written: ({ own }) => own.readyFile,
  },
  cgroupRoot: {
    flag: 'cgroup-root',
    ...text,
    defaultText: 'the whole hierarchy',
    help: 'cgroup v2 directory whose sockets are served by eBPF (default: the whole hierarchy)',
    doc: 'cgroup v2 directory whose sockets are served',
    onIptables: { reason: ALL_PACKETS },
    written: ({ own }) => own.cgroupRoot,
  },
  bpfRoot: {
    flag: 'bpf-root',
    ...text,
    default: DEFAULT_BPF_ROOT,
    help: 'directory on a bpf file system where maps and links are pinned (default /sys/fs/bpf/fairlead)',
    doc: 'directory where maps and links are pinned',
    written: ({ own }) => own.bpfRoot,
  },
  runDir: {
    flag: 'run-dir',
    ...text,
    default: DEFAULT_RUN_DIR,
    help: 'directory for the admin socket and state (default /run/fairlead)',
    doc: 'directory for the admin socket and state',
    written: ({ own }) => own.runDir,
  },
  historyDir: {
    flag: 'history-dir',
    ...text,
    defaultText: '`/var/lib/fairlead/history`; with another runDir, `history` in it',
    help: 'directory for the history of changes (default /var/lib/fairlead/history, or history in a --run-dir that is given; where it cannot be written, there is none)',
    doc: 'directory for the [history of changes](operate.md#the-history)',
    written: ({ own }) => own.history.dir,
  },
  historySize: {
    flag: 'history-size',
    type: 'int',
    schema: z.int().min(0).max(65_536),
    default: 64,
    help: 'size of the history on disk in MiB (0: none; default 64)',
    doc: 'size of the history in MiB; 0: there is none',
    written: ({ own }) => own.history.maxMiB,
  },
  cniConfDir: {
    flag: 'cni-conf-dir',
    ...text,
    default: DEFAULT_CNI_FOLDER,
    help: 'directory with the CNI configurations of the node, for `status` (default /etc/cni/net.d)',
    doc: 'CNI configurations of the node, for `status`; mount them into a container',
    written: ({ own }) => own.cniConfDir,
  },
} as const satisfies Readonly<Record<string, Setting>>;

export const LOG_SETTINGS = {
  logLevel: {
    flag: 'log-level',
    ...choice(['debug', 'info', 'warn', 'error']),
    defaultText: 'info',
    help: 'debug, info, warn or error (default info)',
    doc: '`debug`, `info`, `warn` or `error`; overrides logging.verbosity',
    written: ({ log }) => log.level,
  },
  logFormat: {
    flag: 'log-format',
    ...choice(['json', 'text']),
    defaultText: 'json',
    help: 'json or text (default json)',
    doc: 'overrides logging.format',
    written: ({ log }) => log.format,
  },
  metricsTopServices: {
    flag: 'metrics-top-services',
    type: 'int',
    schema: z.int().min(0).max(1000),
    default: 0,
    help: 'number of Services, the busiest first, with their own counters on /metrics (default 0; bpf engine only)',
    doc: 'number of Services with their own counters on /metrics, the busiest first',
    onIptables: { reason: 'ignored by the iptables engine: connections are not counted' },
    written: ({ own }) => own.metricsTopServices,
  },
} as const satisfies Readonly<Record<string, Setting>>;
