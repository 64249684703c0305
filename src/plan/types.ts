// SPDX-License-Identifier: Apache-2.0
// The plan: every decision kube-proxy would make, as plain values that any dataplane can render.
// No kernel terms, and no policy left for a dataplane to interpret.
import type {
  Algorithm,
  Exposure,
  Family,
  Forwarding,
  FrontendKind,
  Protocol,
  Rejection,
  SourceFilter,
  Topology,
} from '../model/types.ts';

/**
 * Who opens the connection, seen from this node, as kube-proxy tells them apart: `pod` = source matched by the local
 * detector, `host` = source is an address of this node, `outside` = anyone else. Tested in that order.
 */
export type ClientPosition = 'pod' | 'host' | 'outside';

/**
 * Which candidate set a rule chooses from: `cluster` = endpoints of all nodes, as topology allows;
 * `local` = endpoints of this node (CategorizeEndpoints in kube-proxy's topology.go).
 */
export type Scope = 'cluster' | 'local';

/** What happens to a new connection from one client position to one frontend. */
export interface TrafficRule {
  readonly scope: Scope;
  /** What to do while the scope's set is empty: refuse at once, or drop silently. */
  readonly whenEmpty: 'reject' | 'drop';
  /** True if the client's address must be replaced by this node's; hairpin traffic is decided separately. */
  readonly masquerade: boolean;
  /**
   * Requests to a backend of another node go there as they are, if that node is a peer, and it answers the client
   * itself; to other nodes they are masqueraded. Only where `masquerade` is true.
   */
  readonly directReturn?: true;
  /** The same, in IPIP to the backend itself, if it is a real server: see isRealServer. Only where `directReturn` is true. */
  readonly ipip?: true;
}

/** One address:port of a pod (or host) that can serve a service port. */
export interface Backend {
  /** Canonical textual address of the service port's family. */
  readonly address: string;
  /** Host order, 1..65535. */
  readonly port: number;
  /** True if the endpoint's node is this node. */
  readonly isLocal: boolean;
  /** True if not ready, but serving while it terminates: chosen only if nothing better is ready (KEP-1669). */
  readonly isTerminating: boolean;
  /** Its share of new connections is its part of the sum of a set's weights; absent = 1. 0 is in no set. */
  readonly weight?: number;
  /** Name of its node; absent = this node, not known, or no rule of the service port asks for direct return. */
  readonly node?: string;
}

/** The part of an array of backends that readers need. */
export interface BackendList extends Iterable<Backend> {
  readonly length: number;
  map<T>(each: (backend: Backend) => T): T[];
}

/** One address:port/protocol that clients use. */
export interface Frontend {
  readonly kind: FrontendKind;
  /** Canonical address; undefined for a NodePort: every address that `Plan.nodePortAddresses` accepts. */
  readonly address: string | undefined;
  /** Host order, 1..65535. */
  readonly port: number;
  readonly rules: Readonly<Record<ClientPosition, TrafficRule>>;
  /** Only sources that the service port's `sources` admit may use it. */
  readonly isFiltered?: true;
  /** Of a NodePort: endpoints of its Service have the same number, so a process that binds it may be one of them. */
  readonly isEndpointPort?: true;
}

/** A frontend at an address that this node has itself. */
export interface NodeFrontend extends Pick<Frontend, 'port'> {
  readonly kind: Exclude<FrontendKind, 'NodePort'>;
  readonly address: string;
  /** A process of the node listens there: it gets what is sent there, and the frontend is not among `frontends`. */
  readonly isListenedTo: boolean;
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
  /** 0 = no affinity; else ClientIP with this sliding timeout, shared by all frontends of the port. */
  readonly affinityTimeoutSeconds: number;
  /** How a backend of a set is chosen for a new connection, unless session affinity remembers one; absent = random. */
  readonly algorithm?: Algorithm;
  /** As the Service or the default of the node asks for; absent = snat. What becomes of it is in the traffic rules. */
  readonly forwarding?: Exclude<Forwarding, 'snat'>;
  /** The same for clients from outside at frontends that are no ClusterIP; absent = `algorithm`. */
  readonly externalAlgorithm?: Algorithm;
  /** Entries of lookup tables, a prime; absent = as many as a set's backends need. */
  readonly tableEntries?: number;
  /** What backends get at the head of each connection, where sockets of the agent relay it; TCP only. */
  readonly proxyProtocol?: 'v2';
  /** The two candidate sets, sorted by address then port, without duplicates; empty if no rule uses it. */
  readonly cluster: BackendList;
  readonly local: BackendList;
  /** The topology hints that restricted `cluster` (KEP-2433, KEP-3015); absent = none did. */
  readonly topology?: 'same-node' | 'same-zone';
  /** What counted instead of the hints of its slices. */
  readonly topologyChoice?: Exclude<Topology, 'hints'>;
  /**
   * Every endpoint that is ready or serving, of all nodes, ignoring policies and weights: flows to these are not touched,
   * and their backends stay valid for sockets already using them.
   */
  readonly serving: BackendList;
  readonly frontends: readonly Frontend[];
  /** Why no EndpointSlice has an endpoint for it; absent = one may have. */
  readonly emptyNote?: EmptyNote;
  /** Who may use those frontends that are filtered; absent if none is. */
  readonly sources?: SourceFilter;
  /** Frontends at addresses that this node has itself; absent = none. */
  readonly onNode?: readonly NodeFrontend[];
  /**
   * ClusterIP at which every port that the Service does not have is refused, on behalf of this one: in each
   * family the Service's first port with a ClusterIP has it. A ClusterIP that is not exposed has no other ports,
   * nor has an address of this node, which other processes may use.
   */
  readonly refusesOtherPortsOf?: string | undefined;
}

export interface EmptyNote {
  /** `port`: no slice has a port of this name and protocol; `family`: no slice has this address type. */
  readonly kind: 'no-slices' | 'family' | 'port';
  readonly reason: string;
}

/** An address of the Service that has no frontend. */
export interface UnservedAddress {
  readonly address: string;
  /** The field of the object that has the address. */
  readonly field: string;
  readonly reason: string;
}

export interface HealthCheck {
  readonly port: number;
  /** Families in which the Service has a ClusterIP: kube-proxy listens in these only. */
  readonly families: readonly Family[];
  /** Distinct addresses of ready local endpoints over all ports, per family. */
  readonly localEndpoints: Readonly<Record<Family, number>>;
}

/** The plan of one Service object. */
export interface ServicePlan {
  readonly namespace: string;
  readonly name: string;
  /** The object's spec.type as projected. */
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName';
  /** The object's labels as `app=web,tier=front`, sorted, for views that select by them; absent = none. */
  readonly labels?: string;
  readonly ports: readonly ServicePortPlan[];
  /** Absent = none. */
  readonly unserved?: readonly UnservedAddress[];
  readonly healthCheck?: HealthCheck;
  /** What the Service's annotations leave out; absent = nothing. */
  readonly exposure?: Exposure & {
    /** False: this node has no frontends of it except the ClusterIP. */
    readonly isHere: boolean;
    /** Frontends that the Service would have without its annotations, as frontendKeysOf names them. */
    readonly withheld: readonly string[];
  };
}

/** `namespace/name`. */
export type ServiceKey = string;

/**
 * The whole plan: a value, which never changes. An unchanged Service is the identical (===) ServicePlan object from plan to
 * plan, so what differs between two plans is found by reference (`differences` of lib/persistent/map.ts).
 */
export interface Plan {
  readonly services: ReadonlyMap<ServiceKey, ServicePlan>;
  /** Some rule asks for direct return. */
  readonly wantsDirectReturn?: true;
  /** Services with frontends at addresses that this node has itself; absent = none. */
  readonly onNode?: ReadonlySet<ServiceKey>;
  /** Which local addresses answer NodePorts, per family: all of them, or those inside these prefixes. */
  readonly nodePortAddresses: Readonly<Record<Family, 'all' | readonly string[]>>;
  /** How `pod` is recognised; undefined = no detector, nothing is a pod. */
  readonly detector: Readonly<Record<Family, LocalDetector | undefined>>;
  readonly node: NodeFacts;
  /** Allocated ranges of ClusterIPs, canonical and sorted (networking.k8s.io/v1 ServiceCIDR). */
  readonly serviceCidrs: readonly string[];
  /** Sorted by kind, namespace and name, so that equal inputs give equal lists. */
  readonly rejections: readonly Rejection[];
}

/** What the plan knows about the cluster's nodes, from Node objects alone. */
export interface NodeFacts {
  readonly name: string;
  /** Label topology.kubernetes.io/zone of this node's Node object; '' = none. */
  readonly zone: string;
  /** Labels of this node's Node object as `role=edge,zone=a`, sorted; absent = no Node object is known. */
  readonly labels?: string;
  /** The node IP of each family: the bind address if one is set, else InternalIP before ExternalIP. */
  readonly addresses: Readonly<Record<Family, string | undefined>>;
  /** Every address of this node's Node object and the bind address, canonical and sorted; loopback apart. */
  readonly localAddresses: readonly string[];
  readonly podCidrs: readonly string[];
  /** Address -> name of other Nodes, if the source delivers them at all. */
  readonly others: ReadonlyMap<string, string>;
  /** This node's Node says that it takes requests for direct return, at the port of every agent: others may send them. */
  readonly isPeer?: true;
  /** The same Nodes by name, for direct return; absent = not all of them are known yet. */
  readonly peers?: ReadonlyMap<string, Peer>;
}

/** Another node of the cluster: what comes from its addresses in a tunnel is accepted. */
export interface Peer {
  /** Canonical, InternalIPs first. */
  readonly addresses: readonly string[];
  /** UDP port at which it takes requests for direct return; undefined: it takes none, and they are masqueraded. */
  readonly directReturnPort: number | undefined;
}

export type LocalDetector =
  | { readonly kind: 'cidr'; readonly cidr: string }
  | { readonly kind: 'interface'; readonly name: string }
  | { readonly kind: 'interface-prefix'; readonly prefix: string };

/** The settings that the plan depends on. */
export interface PlanSettings {
  /** This node's name, in lower case. */
  readonly nodeName: string;
  readonly detectLocalMode: 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix';
  /** Only the first prefix of each family counts; empty = no detector in ClusterCIDR mode. */
  readonly clusterCidrs: readonly string[];
  readonly podBridgeInterface?: string;
  readonly podInterfaceNamePrefix?: string;
  readonly masqueradeAll: boolean;
  /** CIDRs and the keywords `primary`, `localhost`, `all`; empty = all local addresses. */
  readonly nodePortAddresses: readonly string[];
  /** Real bind address if one was configured: replaces the node IP of its family. Unspecified = not set. */
  readonly bindAddress?: string;
  /** The mitigation for CVE-2020-8554: false rejects spec.externalIPs. */
  readonly allowExternalIps: boolean;
  /** Of Services that do not choose one; absent = random. */
  readonly algorithm?: Algorithm;
  /** Of Services that do not choose one; absent = snat. */
  readonly forwarding?: Exclude<Forwarding, 'ipip'>;
  /** Of Services that do not choose one; absent = hints. */
  readonly topology?: Topology;
  /** The algorithm of these for clients from outside, at frontends that are no ClusterIP; absent = `algorithm`. */
  readonly externalAlgorithm?: Algorithm;
  /** Where source ranges of Services hold that do not say it; absent = at load balancer addresses alone. */
  readonly sourceRangesScope?: 'all';
}
