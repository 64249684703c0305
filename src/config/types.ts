// SPDX-License-Identifier: Apache-2.0
// The settings of one instance as one record, whatever their source: kube-proxy's file, the
// FairleadConfiguration document, flags. Pure.
import type { PlanSettings } from '../plan/types.ts';
import type { ListenAddress } from './addresses.ts';
import type { KubeProxyDocument } from './defaults.ts';

/** Steps into a document: keys and list positions. */
export type FieldPath = readonly (string | number)[];

/** An error or a warning about one setting: its location (`file:12`, '' for a flag), its name, and why. */
export interface Diagnostic {
  readonly location: string;
  /** `conntrack.min` or `--conntrack-min`. */
  readonly field: string;
  readonly reason: string;
}

/** `config.yaml:12: conntrack.min: must be …` */
export const diagnosticText = ({ location, field, reason }: Diagnostic): string =>
  [location, field, reason].filter((part) => part !== '').join(': ');

/** Where Services come from: a folder of manifests, or an API server. */
export type SourceSettings =
  | {
      readonly kind: 'manifests';
      readonly dir: string;
      /** How long a change of the folder waits that would remove most Services; 0 = it does not. */
      readonly removalDelayMs: number;
    }
  | {
      readonly kind: 'api';
      /** undefined = in-cluster credentials. */
      readonly kubeconfig: string | undefined;
      /** Tried in this order before any address of the kubeconfig. */
      readonly apiServers: readonly string[];
    };

/** 0 keeps the kernel's value. */
export interface ConntrackSettings {
  readonly maxPerCore: number;
  readonly min: number;
  readonly tcpEstablishedSeconds: number;
  readonly tcpCloseWaitSeconds: number;
  readonly tcpBeLiberal: boolean;
  readonly udpSeconds: number;
  readonly udpStreamSeconds: number;
}

/** What to do instead of running; the first that is set wins, in kube-proxy's order. */
export interface Actions {
  readonly writeConfigTo: string | undefined;
  readonly cleanup: boolean;
  readonly initOnly: boolean;
}

/** The two servers; undefined = disabled (only `--healthz-port=0` and an empty flag do that). */
export interface ServerSettings {
  readonly healthz: ListenAddress | undefined;
  readonly metrics: ListenAddress | undefined;
  readonly isBindFailureFatal: boolean;
}

/** Used only by engines that program netfilter. */
export interface NetfilterSettings {
  readonly minSyncPeriodMs: number;
  readonly masqueradeBit: number;
  readonly localhostNodePorts: boolean;
  readonly snatNodeInternalIp: boolean;
}

export interface LogSettings {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly format: 'json' | 'text';
}

/** What only FairleadConfiguration says. */
export interface OwnSettings {
  readonly isEphemeral: boolean;
  /** An agent of this instance that runs is replaced without a gap. */
  readonly takesOver: boolean;
  /** undefined = the agent serves. */
  readonly shadow: { readonly waitMs: number } | undefined;
  /** What an agent with --shadow has found keeps it from no start. */
  readonly switchesAnyway: boolean;
  readonly readyFile: string | undefined;
  readonly directReturnSecretFile: string | undefined;
  /** undefined = the whole hierarchy. */
  readonly cgroupRoot: string | undefined;
  readonly bpfRoot: string;
  readonly runDir: string;
  /** `dir` undefined: where historyDir() says. */
  readonly history: { readonly dir: string | undefined; readonly maxMiB: number };
  readonly cniConfDir: string;
  /** Entries by the table names of --map-size (`service-ports`); a table that is absent keeps its size. */
  readonly mapSizes: Readonly<Record<string, number>>;
  /** Patterns of device names: ['auto'] chooses by kind, ['none'] none. */
  readonly devices: readonly string[];
  readonly hostFirewall: 'obey' | 'ignore';
  readonly tcOrder: 'outer' | 'inner';
  readonly socketScope: 'auto' | 'host' | 'pods';
  /** As in the file. */
  readonly xdp: readonly string[];
  /** Patterns of device names, as `devices`; ['off']: no flowtable. */
  readonly nftablesOffload: readonly string[];
  readonly protectsNodePorts: boolean;
  readonly auditIntervalMs: number;
  /** TCP connections to a backend that is gone are reset. */
  readonly resetsTcp: boolean;
  /** Echo requests to addresses of Services are answered. */
  readonly answersPing: boolean;
  /** 0 = no counters per Service. */
  readonly metricsTopServices: number;
}

/** auto: bpf, and rules for what this node cannot do with eBPF. */
export type Engine = 'auto' | 'bpf' | 'iptables' | 'nftables' | 'userspace';

export interface Config {
  readonly plan: PlanSettings;
  readonly source: SourceSettings;
  readonly engine: Engine;
  readonly servers: ServerSettings;
  /** A family with a change older than twice this is unhealthy. */
  readonly syncPeriodMs: number;
  readonly netfilter: NetfilterSettings;
  readonly conntrack: ConntrackSettings;
  readonly oomScoreAdj: number;
  readonly log: LogSettings;
  readonly own: OwnSettings;
  readonly actions: Actions;
  /** Settings that are ignored or remapped, in the order of the settings. */
  readonly warnings: readonly Diagnostic[];
  /** As kube-proxy would read it, with defaults: for /configz and --write-config-to. */
  readonly document: KubeProxyDocument;
}
