// SPDX-License-Identifier: Apache-2.0
// The types every layer shares: what an object is called, what happened to it, and how we say no.
// Imports nothing of ours, knows no clock, no kernel and no Kubernetes client.

export type Family = 'IPv4' | 'IPv6';
export const FAMILIES = Object.freeze(['IPv4', 'IPv6'] as const);
export type Protocol = 'TCP' | 'UDP' | 'SCTP';
export type Kind = 'Service' | 'EndpointSlice' | 'Node' | 'ServiceCIDR';

/** Names one API object. `namespace` is '' for cluster-scoped kinds. */
export interface ObjectRef {
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
}

/**
 * Bad user input, as a value: which object, which field (a JSON path such as `spec.ports[0].port`),
 * and why, in words a person can act on. A rejection never affects another object.
 */
export interface Rejection {
  readonly object: ObjectRef;
  readonly field: string;
  readonly reason: string;
  /** What takes the field's place if this version of the object counts. */
  readonly instead?: string;
  /** Nothing is rejected: the version of the object counts as it is. */
  readonly isWarning?: boolean;
}

/**
 * One thing that happened to one object at the source. `put` carries the object exactly as the source
 * delivered it (parsed JSON, unchecked): projecting it is the model's work, not the source's.
 */
export type ObjectChange =
  | {
      readonly type: 'put';
      readonly ref: ObjectRef;
      readonly object: unknown;
      /** What the kind does not have; the API server drops or refuses such fields itself. */
      readonly unknownFields?: readonly string[];
    }
  | { readonly type: 'remove'; readonly ref: ObjectRef };

/** A value for each family the object has it in. */
export type PerFamily<T> = Readonly<Record<Family, T>>;

/** A canonical address and where in the object it stands, for rejections. */
export interface AddressAt {
  readonly address: string;
  readonly field: string;
}

export interface ServicePort {
  /** '' for an unnamed port. */
  readonly name: string;
  readonly protocol: Protocol;
  /** Host order, 1..65535. */
  readonly port: number;
  /** Host order; undefined = no NodePort. */
  readonly nodePort: number | undefined;
  /** Where in spec.ports it stands. */
  readonly index: number;
}

export type TrafficPolicy = 'Cluster' | 'Local';

/** How a backend is chosen for a new connection; `weighted-` and the last two: in proportion to weights. */
export type Algorithm =
  | 'random'
  | 'weighted-random'
  | 'round-robin'
  | 'weighted-round-robin'
  | 'least-connections'
  | 'weighted-least-connections'
  | 'maglev'
  | 'source-hash';

/**
 * How requests from outside reach backends of other nodes. `snat`: masqueraded, the answer comes back through this node;
 * `dsr`: as they are, the backend's node answers the client itself; `hybrid`: `dsr` for TCP, `snat` for UDP.
 */
export type Forwarding = 'snat' | 'dsr' | 'hybrid' | 'ipip';

/**
 * Which endpoints are near enough: those that their hints say, all of them, or those of the zone, or of the node, as if
 * each endpoint had a hint for where it is.
 */
export type Topology = 'hints' | 'ignore' | 'prefer-zone' | 'prefer-node';

/** In the order in which documents list them. */
export const FRONTEND_KINDS = Object.freeze([
  'ClusterIP',
  'ExternalIP',
  'LoadBalancer',
  'NodePort',
] as const);
export type FrontendKind = (typeof FRONTEND_KINDS)[number];

/** Which sources of one family may use a frontend: those in the ranges alone, or all but those. */
export interface SourceFilter {
  readonly policy: 'allow' | 'deny';
  /** Sorted canonical prefixes; none, with `allow`: nobody, as nothing given could be read. */
  readonly ranges: readonly string[];
}

/** Which frontends a Service has, and where. */
export interface Exposure {
  /** Absent = all that the Service asks for. */
  readonly kinds?: readonly FrontendKind[];
  /** Label selector of the nodes that have its frontends except the ClusterIP; '' = none; absent = all. */
  readonly nodes?: string;
}

/** A Service (core/v1) that a proxy must serve; what it need not serve is never projected. */
export interface Service {
  readonly namespace: string;
  readonly name: string;
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer';
  /** metadata.labels as `app=web,tier=front`, sorted; '' = none. */
  readonly labels: string;
  /** Milliseconds since the epoch; Infinity if the object does not say. */
  readonly createdAtMs: number;
  /** spec.selector is not empty: the control plane writes its EndpointSlices. */
  readonly hasSelector?: true;
  readonly ports: readonly ServicePort[];
  readonly clusterIps: PerFamily<AddressAt | undefined>;
  readonly externalIps: readonly AddressAt[];
  /** status.loadBalancer.ingress entries whose ipMode is VIP or absent (KEP-1860). */
  readonly loadBalancerIps: readonly AddressAt[];
  readonly internalPolicy: TrafficPolicy;
  readonly externalPolicy: TrafficPolicy;
  /** 0 = no affinity. */
  readonly affinityTimeoutSeconds: number;
  /** Absent = the default of the node. */
  readonly algorithm?: Algorithm;
  /** Absent = the default of the node. */
  readonly forwarding?: Forwarding;
  /** Absent = the default of the node. */
  readonly topology?: Topology;
  /** Entries of its lookup tables, a prime; absent = as many as its backends need. */
  readonly tableEntries?: number;
  /** Where sockets of the agent relay, backends get a header that names the client; absent = none. */
  readonly proxyProtocol?: 'v2';
  /** undefined = everyone. */
  readonly sources: PerFamily<SourceFilter | undefined>;
  /** `sources` hold at NodePorts and external IPs, too; false = at load balancer addresses alone; absent = the default of the node. */
  readonly filtersAll?: boolean;
  readonly exposure?: Exposure;
  /** Host order; undefined = none. Only set for type LoadBalancer with external policy Local. */
  readonly healthCheckNodePort: number | undefined;
}

export interface SlicePort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** What is said of an endpoint besides its address. */
export interface EndpointTraits {
  readonly isReady: boolean;
  readonly isServing: boolean;
  readonly isTerminating: boolean;
  readonly nodeName: string | undefined;
  readonly zone: string | undefined;
  /** hints.forZones and hints.forNodes; empty = no hint. */
  readonly zoneHints: readonly string[];
  readonly nodeHints: readonly string[];
}

export interface Endpoint {
  /** Canonical. */
  readonly address: string;
  readonly traits: EndpointTraits;
}

/** Endpoints in columns, which weigh half of a list: `traits[i]` is said of `addresses[i]`. */
export interface EndpointColumns {
  /** Canonical, sorted. */
  readonly addresses: readonly string[];
  /** Equal traits are mostly the same object. */
  readonly traits: readonly EndpointTraits[];
  /** `weights[i]` is that of `addresses[i]`; 0 = no new connections. Absent = all have 1. */
  readonly weights?: readonly number[];
}

/** An EndpointSlice (discovery.k8s.io/v1) that belongs to a Service; each of its addresses once. */
export interface EndpointSlice extends EndpointColumns {
  readonly name: string;
  /** `namespace/name` of the owning Service. */
  readonly service: string;
  /** FQDN: host names, which no proxy serves; it has no ports and no addresses. */
  readonly family: Family | 'FQDN';
  readonly ports: readonly SlicePort[];
}

export interface Node {
  readonly name: string;
  /** '' = the Node has no zone label. */
  readonly zone: string;
  /** Canonical, InternalIPs before ExternalIPs, each in the order of the object. */
  readonly addresses: readonly string[];
  /** Canonical prefixes in the order of the object. */
  readonly podCidrs: readonly string[];
  /** metadata.labels as `app=web,tier=front`, sorted; '' = none, or another node's. */
  readonly labels: string;
  /** UDP port at which its agent takes requests for direct return; absent: it takes none. */
  readonly directReturnPort?: number;
}

/** What projecting one object gives; no value and no rejections = not for a proxy. */
export interface Projection<T> {
  readonly value: T | undefined;
  readonly rejections: readonly Rejection[];
}
