// SPDX-License-Identifier: Apache-2.0
// The values that views read from a dataplane: frontends, backends, table usage, connection counters and the
// installation.
import type { Family, Protocol } from '../model/types.ts';
import type { FrontendId } from './entry.ts';

/** One service port in one family, by name. */
export interface PortId {
  readonly namespace: string;
  readonly name: string;
  /** '' for an unnamed port. */
  readonly portName: string;
  readonly protocol: Protocol;
  readonly family: Family;
}

export interface FrontendView {
  /** The dataplane that has programmed it: `bpf`. */
  readonly dataplane: string;
  readonly id: FrontendId;
  readonly port: PortId;
  /** Backends as `address:port`, in slot order: for clients on this node, and for clients outside. */
  readonly internal: readonly string[];
  readonly external: readonly string[];
  readonly internalEmpty: 'reject' | 'drop';
  readonly externalEmpty: 'reject' | 'drop';
  readonly affinitySeconds: number;
  /** This and the next three undefined: this dataplane does not count connections. */
  readonly connections?: number | undefined;
  readonly refused?: number | undefined;
  readonly dropped?: number | undefined;
  readonly affinityHits?: number | undefined;
  /** Of packets that were translated; undefined: not known, or the packet layer is not loaded. */
  readonly toBackend?: Traffic;
  readonly toClient?: Traffic;
  /** Where it is reached instead of its own address: `127.0.0.1:23817`. */
  readonly reachedAt?: string;
}

export interface BackendView {
  /** The dataplane that has programmed it: `bpf`. */
  readonly dataplane: string;
  /** `address:port`. */
  readonly backend: string;
  readonly port: PortId;
  /** Its entry in the maps; undefined: this dataplane has none. */
  readonly id?: number;
  readonly generation?: number;
  readonly state: 'active' | 'terminating' | 'free' | 'gone';
  /** undefined: not programmed, so that only the plan knows it. */
  readonly isLocal?: boolean;
  /** This and the next two undefined: this dataplane does not count connections. */
  readonly connections?: number;
  /** Of sockets. */
  readonly open?: number;
  /** Flows of packets that live now. */
  readonly flows?: number;
}

export interface Snapshot {
  readonly frontends: readonly FrontendView[];
  readonly backends: readonly BackendView[];
}

export interface TableFill {
  readonly name: string;
  readonly used: number;
  readonly capacity: number;
  /** A full table drops the least recently used entry instead of refusing a new one. */
  readonly evicts?: boolean;
  /** What it means that the table is full now, and what to do; absent: it is not, or entries name it. */
  readonly problem?: string;
}

export interface PortConnections {
  readonly port: PortId;
  readonly connections: number;
  /** Without an endpoint. */
  readonly refused: number;
  /** By a Local policy without an endpoint here, or by source ranges. */
  readonly dropped: number;
}

/** Sockets destroyed since the agent started, of one protocol and family of backends. */
export interface DestroyedSockets {
  readonly protocol: Protocol;
  readonly family: Family;
  readonly count: number;
}

/** Stale sockets that could not be destroyed, for one reason. */
export interface LeftSockets {
  readonly reason: string;
  /** 0: how many is not known. */
  readonly count: number;
}

/** What becomes of sockets that are connected to a backend that is gone. */
export interface StaleSocketsState {
  /** How they are destroyed; undefined: they are not, or it is not known yet. */
  readonly way: string | undefined;
  /** What that cannot do, and why; known after the first pass. */
  readonly limits: readonly string[];
  readonly destroyed: readonly DestroyedSockets[];
  /** UDP sockets that have been connected to another backend. */
  readonly connected: number;
  /** Of pods, of the latest pass: the packet programs send their datagrams to another backend. */
  readonly served: number;
  /** Of the latest pass: to be connected when their Service has a backend. */
  readonly waiting: number;
  /** Of pods, of the latest pass: they are not destroyed, but refused with their next datagram. */
  readonly refused: number;
  /** By the latest pass. */
  readonly left: readonly LeftSockets[];
}

/** --socket-scope: whose sockets the hooks serve; those of the node always. */
export type SocketScope = 'auto' | 'host' | 'pods';

export interface ScopeView {
  readonly asked: SocketScope;
  readonly used: SocketScope;
  /** Why another one is used. */
  readonly why?: string;
  /** Network namespaces of pods that have connected to Services, or redirect, where `used` is auto. */
  readonly known: number;
  /** Those of them that are served as packets. */
  readonly asPackets: number;
  /** Those that the agent does not see: their sockets are served. */
  readonly unseen: number;
  /** How a new one is served until it has been looked at. */
  readonly unlooked: 'sockets' | 'packets';
}

export interface Traffic {
  readonly packets: number;
  /** With the network headers. */
  readonly bytes: number;
}

export interface PortTraffic {
  readonly port: PortId;
  readonly toBackend: Traffic;
  readonly toClient: Traffic;
}

export interface Counters {
  readonly tables: readonly TableFill[];
  /** Connections and datagrams by outcome. */
  readonly outcomes: Readonly<Record<string, number>>;
  /** Connections of each Service port. */
  readonly connections: Iterable<PortConnections>;
  /** undefined: this dataplane leaves them alone. */
  readonly staleSockets?: StaleSocketsState;
  /** undefined: no hooks on sockets. */
  readonly scope?: ScopeView;
  /** Cookies of direct return; undefined: the packet layer is not loaded. */
  readonly cookies?: CookieView | undefined;
  /** What packet programs are loaded with; undefined: the packet layer is not loaded. */
  readonly packetFeatures?: readonly string[] | undefined;
  /** Packets of each Service port as of the last reading; undefined: the packet layer is not loaded. */
  readonly traffic?: Iterable<PortTraffic> | undefined;
}

/** Of the requests that nodes send each other with direct return, by the fingerprints of their secrets, or `none`. */
export interface CookieView {
  readonly sent: string;
  readonly taken: readonly string[];
  /** Why the file is not used as it is now. */
  readonly problem?: string;
}

/** One network device of the node, and what is attached to it. */
export interface DeviceView extends EarlyViews {
  readonly name: string;
  readonly ifindex: number;
  /** As `ip -details link` says it: `veth`, `bridge`, `vxlan`, …; undefined for hardware. */
  readonly kind: string | undefined;
  /** `pod`: what comes in by it was sent by a pod of this node. */
  readonly role: 'pod' | 'tunnel' | 'bridge' | 'uplink';
  readonly isAttached: boolean;
  /** Why programs are attached, or why not. */
  readonly reason: string;
  /** Programs on it may be attached and are not: the reason is an error, and is retried. */
  readonly isFailed: boolean;
  /** The programs of each direction in the order in which they run, other people's too. */
  readonly ingress: readonly string[];
  readonly egress: readonly string[];
  /** Sources of masqueraded packets that leave by it; a family without: the node's address. */
  readonly snat: Readonly<Partial<Record<Family, string>>>;
}

/** Of what forwards before the network stack, by its setting; absent: that asks for it on no device. */
export interface EarlyViews {
  readonly xdp?: EarlyView;
}

/** As people read it. */
const EARLY_NAMES: Readonly<Record<keyof EarlyViews, string>> = {
  xdp: 'XDP',
};

export const earlyViews = (views: EarlyViews): readonly (EarlyView & { readonly by: string })[] =>
  Object.entries<string>(EARLY_NAMES).flatMap(([name, by]) => {
    const view = (views as Readonly<Record<string, EarlyView | undefined>>)[name];
    return view === undefined ? [] : [{ by, ...view }];
  });

export interface EarlyView {
  /** `trial`: real frames are being tried; `refused`: it was tried, or used, and is left alone for a while. */
  readonly state: 'off' | 'waiting' | 'trial' | 'on' | 'refused';
  readonly reason: string;
  /** Frames that its driver took, those of the trial included, and that it did not take. */
  readonly sent: number;
  readonly lost: number;
}

/** What a dataplane has installed in the kernel, and where. */
export interface Installation {
  readonly hooks: readonly Hook[];
  /** The error of connections to a Service without backends. */
  readonly refusesWith: 'ECONNREFUSED' | 'EPERM';
  /** cgroup v2 directory whose sockets are translated; undefined: none. */
  readonly cgroupRoot?: string | undefined;
  /** Folder of its pinned maps and links; undefined: nothing is pinned. */
  readonly bpfRoot?: string | undefined;
  /** undefined: no rules are written. */
  readonly iptables?: IptablesInstallation | undefined;
  /** undefined: nftables has no table of ours. */
  readonly nftables?: NftablesInstallation | undefined;
  /** Layers that the settings ask for and the kernel refused. */
  readonly refused: readonly { readonly layer: string; readonly reason: string }[];
  /** What --engine auto lets rules serve, because eBPF cannot; undefined: nothing. */
  readonly fallback?: Fallback | undefined;
}

export interface Fallback {
  readonly what: 'sockets and packets' | 'packets';
  /** Why eBPF cannot serve it. */
  readonly reason: string;
  /** Absent: iptables. */
  readonly by?: 'nftables' | 'userspace';
}

/** Which of the two lists of rules on a node is written. */
export interface IptablesInstallation {
  readonly variant: 'nft' | 'legacy';
  readonly why: string;
  readonly families: readonly Family[];
}

export interface NftablesInstallation {
  readonly families: readonly Family[];
}

export interface Hook {
  readonly name: string;
  /** Adopted from a previous agent. */
  readonly isAdopted: boolean;
  /** Instructions that the verifier walked. */
  readonly insns: number;
}

/** Names as one comparable text; a Service's name has no `:` and no `/`. */
export const portText = ({ namespace, name, portName, protocol, family }: PortId): string =>
  `${namespace}/${name}${portName === '' ? '' : `:${portName}`}/${protocol}/${family}`;
