// SPDX-License-Identifier: Apache-2.0
// The plan: every decision kube-proxy would make, as plain values that any dataplane can render.
// Floor 2: no kernel words. Nothing here is optional policy for a dataplane to reinterpret.
import type { Family, ObjectRef, Protocol, Rejection } from '../model/types.ts';

/**
 * Who opens the connection, seen from this node (behaviour §3.4): `pod` = source matched by the local
 * detector, `host` = source is an address of this node, `outside` = anyone else. Tested in that order.
 */
export type ClientPosition = 'pod' | 'host' | 'outside';

/** Which candidate set a path chooses from: C (`cluster`) or L (`local`) of behaviour §3.1. */
export type Scope = 'cluster' | 'local';

/** What happens to a new connection of one client position to one frontend. */
export interface Path {
  readonly scope: Scope;
  /** What to do while the scope's set is empty: refuse at once, or stay silent (behaviour §3.3). */
  readonly whenEmpty: 'reject' | 'drop';
  /** True if the client's address must be replaced by this node's (behaviour §3.5); hairpin is apart. */
  readonly masquerade: boolean;
}

/** One address:port of a pod (or host) that can serve a service port. */
export interface Backend {
  /** Canonical textual address of the service port's family. */
  readonly address: string;
  /** Host order, 1..65535. */
  readonly port: number;
  /** True if the endpoint's node is this node. */
  readonly isLocal: boolean;
  /** True if it is chosen only because nothing better is ready (KEP-1669). */
  readonly isTerminating: boolean;
  readonly nodeName?: string;
  readonly zone?: string;
}

export type FrontendKind = 'ClusterIP' | 'ExternalIP' | 'LoadBalancer' | 'NodePort';

/** One address:port/protocol that clients use. */
export interface Frontend {
  readonly kind: FrontendKind;
  /** Canonical address; undefined for a NodePort: every address that `Plan.nodePortAddresses` accepts. */
  readonly address: string | undefined;
  /** Host order, 1..65535. */
  readonly port: number;
  readonly paths: Readonly<Record<ClientPosition, Path>>;
  /** Sources that may use it, as canonical prefixes; undefined = everyone (behaviour §3.7). */
  readonly sourceRanges?: readonly string[];
}

/** One Service port in one family: the unit that owns backends, affinity and counters. */
export interface ServicePortPlan {
  /** `ns/name:portname/TCP/IPv4` (no colon part for an unnamed port): unique and stable. */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly portName: string;
  readonly protocol: Protocol;
  readonly family: Family;
  /** 0 = no affinity; else ClientIP with this sliding timeout (behaviour §3.9). */
  readonly affinityTimeoutSeconds: number;
  /** C and L of behaviour §3.1, sorted by address then port, without duplicates. */
  readonly cluster: readonly Backend[];
  readonly local: readonly Backend[];
  /**
   * Every endpoint with serving=true (ready or terminating) of all nodes, ignoring policies: flows to these are
   * left alone (§4.1), and their backends stay valid for sockets already using them.
   */
  readonly serving: readonly Backend[];
  readonly frontends: readonly Frontend[];
}

export interface HealthCheck {
  readonly port: number;
  /** Distinct addresses of ready local endpoints, per family (behaviour §3.10). */
  readonly localEndpoints: Readonly<Record<Family, number>>;
}

/** All that one Service object becomes. */
export interface ServicePlan {
  readonly namespace: string;
  readonly name: string;
  /** The object's spec.type as projected. */
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName';
  readonly ports: readonly ServicePortPlan[];
  readonly healthCheck?: HealthCheck;
}

/** `namespace/name`. */
export type ServiceKey = string;

/**
 * The whole plan. `services` is a live read-only view: an unchanged Service keeps the identical (===)
 * ServicePlan object from build to build, so a dataplane may skip it by reference.
 */
export interface Plan {
  readonly services: ReadonlyMap<ServiceKey, ServicePlan>;
  /** Which local addresses answer NodePorts, per family: all of them, or those inside these prefixes. */
  readonly nodePortAddresses: Readonly<Record<Family, 'all' | readonly string[]>>;
  /** How `pod` is recognised; undefined = no detector, nothing is a pod (behaviour §3.6). */
  readonly detector: Readonly<Record<Family, LocalDetector | undefined>>;
  readonly rejections: readonly Rejection[];
}

export type LocalDetector =
  | { readonly kind: 'cidr'; readonly cidr: string }
  | { readonly kind: 'interface'; readonly name: string }
  | { readonly kind: 'interface-prefix'; readonly prefix: string };

/** What one build changed: the Services to render again (a key absent from `plan.services` is gone). */
export interface PlanDelta {
  readonly plan: Plan;
  readonly changed: readonly ServiceKey[];
  /** True if something node-wide changed (nodePortAddresses, detector): every Service counts as changed. */
  readonly isGlobal: boolean;
}

/** Settings that decide meaning; everything else about an instance is the shell's affair. */
export interface PlanSettings {
  /** Own node's name, lower case. */
  readonly nodeName: string;
  readonly detectLocalMode: 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix';
  /** Up to one prefix a family counts; empty = no detector in ClusterCIDR mode. */
  readonly clusterCidrs: readonly string[];
  readonly podBridgeInterface?: string;
  readonly podInterfaceNamePrefix?: string;
  readonly masqueradeAll: boolean;
  /** CIDRs and the keywords `primary`, `localhost`, `all`; empty = all local addresses. */
  readonly nodePortAddresses: readonly string[];
  /** Real bind address if one was configured (behaviour §1.2): replaces the node IP of its family. */
  readonly bindAddress?: string;
  /** The switchable guard of CVE-2020-8554: false drops spec.externalIPs with a rejection. */
  readonly allowExternalIps: boolean;
}

/** A rejection's object as one string, for logs and keys: `Service default/web`. */
export function refText(ref: ObjectRef): string {
  return ref.namespace === ''
    ? `${ref.kind} ${ref.name}`
    : `${ref.kind} ${ref.namespace}/${ref.name}`;
}
