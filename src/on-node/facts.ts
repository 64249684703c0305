// SPDX-License-Identifier: Apache-2.0
// What the readers below `read/` have seen of a node, as values. A reader that fails says why: nothing else suffers.
import type { Family } from '../model/types.ts';

export type Reading<T> = { readonly value: T } | { readonly unread: string };

/** A rule of `ip rule`, beyond those that every network namespace has. */
export interface PolicyRule {
  readonly family: Family;
  readonly priority: number;
  /** As ip(8) shows it, without the priority: `from 10.1.1.5 fwmark 0x80/0x80 lookup 2`. */
  readonly text: string;
  /** The mark that it asks for; absent: whatever the mark is. */
  readonly mark?: Mark;
}

/** Bits of a packet's mark. */
export interface Mark {
  readonly value: number;
  readonly mask: number;
}

/** A rule of nf_tables that writes the mark of packets or of connections. */
export interface MarkTarget extends Mark {
  readonly family: string;
  readonly table: string;
  readonly chain: string;
  /** `MARK`, `CONNMARK`, `CONNMARK restore`, or of nft itself `meta mark` and `ct mark`. */
  readonly target: string;
  /** It writes the mark of the packet, not that of its connection. */
  readonly isOfPackets: boolean;
}

/** What a container runtime makes the network of pods of. */
export interface CniFiles {
  readonly folder: string;
  /** In the order in which runtimes read them: the first good one counts. Undefined: there is no such folder. */
  readonly files: readonly CniFile[] | undefined;
}

export interface CniFile {
  readonly file: string;
  /** Types of the plugins, in their order. */
  readonly plugins: readonly string[];
  /** Why the file cannot be used. */
  readonly problem?: string;
}

/** The reverse path filter of IPv4 as it works on a device: the greater one of its own setting and that of all. */
export interface ReversePath {
  readonly device: string;
  readonly mode: 'off' | 'strict' | 'loose';
}

/** The programs of one hook in the order in which they run. */
export interface HookPrograms {
  /** `tcx ingress`, `clsact egress`, `XDP`, `connect4`. */
  readonly hook: string;
  /** A device, or a cgroup by its path. */
  readonly on: string;
  readonly programs: readonly HookProgram[];
}

export interface HookProgram {
  readonly id: number;
  /** Undefined: to read it takes CAP_SYS_ADMIN. */
  readonly name: string | undefined;
}

/** An address of a device of the node. */
export interface LocalAddress {
  readonly device: string;
  readonly address: string;
}

export interface NodeFacts {
  readonly rules: Reading<readonly PolicyRule[]>;
  readonly markTargets: Reading<readonly MarkTarget[]>;
  readonly cni: Reading<CniFiles>;
  readonly reversePath: Reading<readonly ReversePath[]>;
  readonly programs: Reading<readonly HookPrograms[]>;
  readonly cgroupPrograms: Reading<readonly HookPrograms[]>;
  readonly addresses: Reading<readonly LocalAddress[]>;
}

/** What this agent does on the node; a probe knows less. */
export interface OwnFacts {
  /** The one that serves packets. Undefined: it is not known, as in a probe. */
  readonly packets: 'bpf' | 'iptables' | 'none' | undefined;
  /** The bit by which rules say "masquerade"; undefined: no rules are written. */
  readonly markBit: number | undefined;
  /** `--socket-scope` as it is used; `none`: rules serve pods. Undefined: it is not known, as in a probe. */
  readonly sockets: 'auto' | 'host' | 'pods' | 'none' | undefined;
  /** Devices by which clients and other nodes are reached. */
  readonly uplinks: readonly string[];
  /** Service by ClusterIP, `namespace/name`. */
  readonly clusterIps: ReadonlyMap<string, string>;
  /** Ports of Services that processes of the node listen at, by address: `53/UDP`. */
  readonly listenedTo: ReadonlyMap<string, readonly string[]>;
}
