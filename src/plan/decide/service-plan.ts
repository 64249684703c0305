// SPDX-License-Identifier: Apache-2.0
// One Service and its slices -> ServicePlan. Pure: everything it depends on comes in.
import { exactList, flatText } from '../../lib/compact.ts';
import { ANNOTATIONS, type ServiceChoices } from '../../model/annotations.ts';
import { annotationField } from '../../model/fields.ts';
import { portField } from '../../model/service/ports.ts';
import {
  type Algorithm,
  type EndpointSlice,
  FAMILIES,
  type Family,
  type Forwarding,
  type ObjectRef,
  type PerFamily,
  type Rejection,
  type Service,
  type ServicePort,
  type Topology,
} from '../../model/types.ts';
import { isDirectReturn } from '../direct-return/asked.ts';
import { otherPort } from '../direct-return/real-servers.ts';
import {
  exposedService,
  hasClusterIp,
  isExposedHere,
  type NodeLabels,
  refusedAddress,
} from '../exposure/exposure.ts';
import { isFilteredKind, sourcesWithSelf } from '../exposure/sources.ts';
import { type NodeSockets, nodeFrontend } from '../node-sockets/frontends.ts';
import { emptyNote, unservedAddresses } from '../notes.ts';
import type {
  BackendList,
  Frontend,
  HealthCheck,
  NodeFrontend,
  ServiceKey,
  ServicePlan,
  ServicePortPlan,
} from '../types.ts';
import { BALANCING, LOOKUP_NAMES, WEIGHING_NAMES } from './balancing.ts';
import { type CandidateSets, candidateSets } from './candidates.ts';
import { mergeEndpoints } from './endpoints.ts';
import {
  exposureOf,
  type FrontendAddress,
  frontendAddresses,
  frontendKey,
  isExternallyAccessible,
  nodePortKey,
} from './frontends.ts';
import { clusterIpRules, externalRules, type RuleInputs, type Tunnel } from './traffic-rules.ts';

/** What a Service's plan depends on besides the Service and its slices. */
export interface BuildContext {
  readonly nodeName: string;
  readonly zone: string;
  readonly nodeLabels: NodeLabels;
  readonly nodeAddresses: PerFamily<string | undefined>;
  readonly hasDetector: PerFamily<boolean>;
  readonly masqueradeAll: boolean;
  readonly allowExternalIps: boolean;
  /** Of Services that do not choose. */
  readonly choices: ServiceChoices;
  /** The algorithm of these for clients from outside, at frontends that are no ClusterIP. */
  readonly externalAlgorithm: Algorithm;
  /** Source ranges of Services that do not say it hold at every external frontend. */
  readonly filtersAll: boolean;
  readonly nodeSockets: NodeSockets;
  /** False if there is no ownership conflict: then `otherOwner` need not be called. */
  readonly hasConflicts: () => boolean;
  /** The Service that has the frontend, if it is another one than `asking`. */
  readonly otherOwner: (frontend: string, asking: ServiceKey) => ServiceKey | undefined;
}

export interface BuiltService {
  readonly plan: ServicePlan;
  readonly rejections: readonly Rejection[];
}

interface Work {
  readonly service: Service;
  readonly key: ServiceKey;
  readonly slices: readonly EndpointSlice[];
  readonly context: BuildContext;
  readonly reject: (field: string, reason: string) => void;
}

export const serviceKey = (service: Service): ServiceKey =>
  flatText(service.namespace, '/', service.name);

/** `slices` must be sorted by name. Linear in endpoints times the ports that use them. */
export function buildService(
  asked: Service,
  slices: readonly EndpointSlice[],
  context: BuildContext,
): BuiltService {
  const { namespace, name, type, labels } = asked;
  const exposed = exposedService(asked, context.nodeLabels);
  const isDefault = context.filtersAll && asked.filtersAll === undefined;
  const service = isDefault ? { ...exposed, filtersAll: true } : exposed;
  const isHere = isExposedHere(asked, context.nodeLabels);
  const object: ObjectRef = { kind: 'Service', namespace, name };
  const rejections: Rejection[] = [];
  const reject = (field: string, reason: string): void => {
    rejections.push({ object, field, reason });
  };
  const work: Work = { service, key: serviceKey(service), slices, context, reject };
  rejectExternalIps(work);
  rejectIdleWeights(work);
  rejectIdleTableSize(work);
  rejectLocalIpip(work);
  const ports: ServicePortPlan[] = [];
  const readyLocal = service.healthCheckNodePort === undefined ? undefined : newReadyLocal();
  for (const family of FAMILIES) {
    if (service.clusterIps[family] === undefined) continue;
    const addresses = frontendAddresses(service, family, context.allowExternalIps);
    let hasRefusing = false;
    for (const port of service.ports) {
      const sets = setsOf(work, port, family);
      if (readyLocal !== undefined && isHere) addLocal(sets.ready, readyLocal[family]);
      const built = buildPort(work, port, { family, addresses, sets, isRefusing: !hasRefusing });
      hasRefusing ||= built.refusesOtherPortsOf !== undefined;
      ports.push(built);
    }
  }
  const unserved = unservedAddresses(service);
  const healthCheck = readyLocal && buildHealthCheck(work, readyLocal);
  const plan = {
    ...{ namespace, name, type, ports: exactList(ports) },
    ...(labels !== '' && { labels }),
    ...(unserved.length > 0 && { unserved }),
    ...(healthCheck && { healthCheck }),
    ...exposureOf(asked, context),
  };
  return { plan, rejections };
}

/** The mitigation for CVE-2020-8554 (external IPs that intercept other addresses; KEP-5707). */
function rejectExternalIps({ service, context, reject }: Work): void {
  if (context.allowExternalIps) return;
  for (const { address, field } of service.externalIps) {
    reject(field, `${address} is not served: external IPs are switched off on this node`);
  }
}

const algorithmOf = ({ service, context }: Work): Algorithm =>
  service.algorithm ?? context.choices.algorithm;

const forwardingOf = ({ service, context }: Work): Forwarding =>
  service.forwarding ?? context.choices.forwarding;

const topologyChoiceOf = ({ service, context }: Work): Topology =>
  service.topology ?? context.choices.topology;

const externalAlgorithmOf = ({ service, context }: Work): Algorithm =>
  service.algorithm ?? context.externalAlgorithm;

const algorithmsOf = (work: Work): readonly Algorithm[] => [
  algorithmOf(work),
  externalAlgorithmOf(work),
];

/** Nobody who writes weights wants them to have no effect. */
function rejectIdleWeights(work: Work): void {
  if (work.slices.every((slice) => slice.weights === undefined)) return;
  const algorithm = algorithmOf(work);
  if (algorithmsOf(work).some((one) => BALANCING[one].isWeighing)) return;
  const weights = work.slices.flatMap((slice) => slice.weights ?? [1]);
  const [first, ...others] = weights.filter((weight) => weight !== 0);
  if (others.every((weight) => weight === first)) return;
  work.reject(
    annotationField(ANNOTATIONS.algorithm.name),
    `${algorithm} does not weigh endpoints: of their weights only 0 counts; use ${WEIGHING_NAMES.join(' or ')}`,
  );
}

/** Real servers are on no node: requests would only find the endpoints of this one. */
function rejectLocalIpip(work: Work): void {
  if (forwardingOf(work) !== 'ipip' || work.service.externalPolicy !== 'Local') return;
  const reason = 'ipip has no effect with externalTrafficPolicy Local: use Cluster';
  work.reject(annotationField(ANNOTATIONS.forwarding.name), reason);
}

function rejectIdleTableSize(work: Work): void {
  const hasTable = algorithmsOf(work).some((name) => LOOKUP_NAMES.includes(name));
  if (work.service.tableEntries === undefined || hasTable) return;
  const reason = `has no effect: ${algorithmOf(work)} has no tables of a size, ${LOOKUP_NAMES.join(' and ')} has`;
  work.reject(annotationField(ANNOTATIONS.tableEntries.name), reason);
}

/** A table must have room for every backend. */
function tableEntriesOf(work: Work, { cluster, local }: CandidateSets): number | undefined {
  const { tableEntries } = work.service;
  const backends = Math.max(cluster.length, local.length);
  if (tableEntries === undefined || tableEntries >= backends) return tableEntries;
  const reason = `${tableEntries} entries are too few for ${backends} backends; the default is used`;
  work.reject(annotationField(ANNOTATIONS.tableEntries.name), reason);
  return undefined;
}

function setsOf(work: Work, port: ServicePort, family: Family): CandidateSets {
  const { service, slices, context } = work;
  const isExternal = isExternallyAccessible(service, port, family);
  const isInternal = hasClusterIp(service);
  const isInternalLocal = isInternal && service.internalPolicy === 'Local';
  const wanted = {
    usesCluster: (isInternal && !isInternalLocal) || isExternal,
    usesLocal: isInternalLocal || (service.externalPolicy === 'Local' && isExternal),
    usesNodes: asksForDirectReturn(work, port, family),
    topologyChoice: topologyChoiceOf(work),
  };
  return candidateSets(mergeEndpoints(port, family, slices), wanted, context);
}

/** At some frontend, and may have to go to another node for it. */
const asksForDirectReturn = (work: Work, port: ServicePort, family: Family): boolean =>
  isDirectReturn(forwardingOf(work), port.protocol) &&
  work.service.externalPolicy === 'Cluster' &&
  isExternallyAccessible(work.service, port, family);

const portKey = (key: ServiceKey, { name, protocol }: ServicePort, family: Family): string =>
  flatText(key, name === '' ? '' : ':', name, '/', protocol, '/', family);

interface PortParts {
  readonly family: Family;
  readonly addresses: readonly FrontendAddress[];
  readonly sets: CandidateSets;
  /** No earlier port of the family refuses the other ports of the ClusterIP. */
  readonly isRefusing: boolean;
}

function buildPort(work: Work, port: ServicePort, parts: PortParts): ServicePortPlan {
  const { service, key } = work;
  const { family, sets, isRefusing } = parts;
  const { frontends, onNode } = buildFrontends(work, port, parts, tunnelOf(work, port, parts));
  const refused = isRefusing ? refusedAddress(service, family, frontends) : undefined;
  const { name: portName, protocol } = port;
  const sources = sourcesWithSelf(service, family, work.context.nodeAddresses[family]);
  const isAnyFiltered = frontends.some(({ isFiltered }) => isFiltered);
  const { cluster, local, serving, topology } = sets;
  const note = serving.length === 0 ? emptyNote(service, port, family, work.slices) : undefined;
  const forwarding = forwardingOf(work);
  const topologyChoice = topologyChoiceOf(work);
  const plan = {
    key: portKey(key, port, family),
    namespace: service.namespace,
    name: service.name,
    portName,
    protocol,
    family,
    affinityTimeoutSeconds: service.affinityTimeoutSeconds,
    ...balancingOf(work, sets),
    ...(forwarding !== 'snat' && { forwarding }),
    ...(topologyChoice !== 'hints' && { topologyChoice }),
    ...(service.proxyProtocol && protocol === 'TCP' && { proxyProtocol: service.proxyProtocol }),
    cluster,
    local,
    serving,
    frontends,
    ...(note && { emptyNote: note }),
    ...(isAnyFiltered && sources !== undefined && { sources }),
    ...(onNode.length > 0 && { onNode }),
    refusesOtherPortsOf: isOfNode(work, refused) ? undefined : refused,
  };
  return topology === undefined ? plan : { ...plan, topology };
}

/** Other ports of such a ClusterIP belong to whatever else of this node listens there. */
const isOfNode = ({ context }: Work, address: string | undefined): boolean =>
  address !== undefined && context.nodeSockets.addresses.has(address);

function balancingOf(
  work: Work,
  sets: CandidateSets,
): Pick<ServicePortPlan, 'algorithm' | 'externalAlgorithm' | 'tableEntries'> {
  const algorithm = algorithmOf(work);
  const externalAlgorithm = externalAlgorithmOf(work);
  const tableEntries = tableEntriesOf(work, sets);
  return {
    ...(algorithm !== 'random' && { algorithm }),
    ...(externalAlgorithm !== algorithm && { externalAlgorithm }),
    ...(tableEntries !== undefined && { tableEntries }),
  };
}

/** undefined: requests are masqueraded. */
function tunnelOf(work: Work, port: ServicePort, { sets, family }: PortParts): Tunnel | undefined {
  if (!asksForDirectReturn(work, port, family)) return undefined;
  if (forwardingOf(work) !== 'ipip') return 'geneve';
  const other = otherPort(sets.cluster, port.port);
  if (other === undefined) return 'ipip';
  const reason = `ipip leaves ports as they are: ${portText(port)} has the endpoint ${other}; it is served by snat`;
  work.reject(annotationField(ANNOTATIONS.forwarding.name), reason);
  return undefined;
}

const portText = ({ name, port, protocol }: ServicePort): string =>
  `port ${name === '' ? '' : `${name} `}(${port}/${protocol})`;

interface BuiltFrontends {
  readonly frontends: readonly Frontend[];
  readonly onNode: readonly NodeFrontend[];
}

function buildFrontends(
  work: Work,
  port: ServicePort,
  parts: PortParts,
  tunnel: Tunnel | undefined,
): BuiltFrontends {
  const { service, context } = work;
  const { family, addresses, sets } = parts;
  const inputs: RuleInputs = {
    hasDetector: context.hasDetector[family],
    masqueradeAll: context.masqueradeAll,
    isAnyUsable: sets.isAnyUsable,
    tunnel,
  };
  const internal = clusterIpRules(service.internalPolicy, inputs);
  const external = externalRules(service.externalPolicy, inputs);
  // A request to a NodePort has an address of the node, which no real server has.
  const atNodePort =
    tunnel === 'ipip'
      ? externalRules(service.externalPolicy, { ...inputs, tunnel: undefined })
      : external;
  const hasSources = service.sources[family] !== undefined;
  const hasConflicts = context.hasConflicts();
  const frontends: Frontend[] = [];
  const onNode: NodeFrontend[] = [];
  for (const { kind, address, field } of addresses) {
    if (hasConflicts && isOwnedByOther(work, frontendKey(address, port.port, port.protocol), field))
      continue;
    const own = nodeFrontend({ kind, address }, port, sets.serving, context.nodeSockets);
    if (own !== undefined) onNode.push(own);
    if (own?.isListenedTo) continue;
    const rules = kind === 'ClusterIP' ? internal : external;
    const frontend = { kind, address, port: port.port, rules };
    const isFiltered = hasSources && isFilteredKind(service, kind);
    frontends.push(isFiltered ? { ...frontend, isFiltered } : frontend);
  }
  const { nodePort } = port;
  if (nodePort === undefined) return { frontends: exactList(frontends), onNode };
  const key = nodePortKey(nodePort, port.protocol, family);
  if (!hasConflicts || !isOwnedByOther(work, key, `${portField(port.index)}.nodePort`)) {
    const frontend = {
      kind: 'NodePort',
      address: undefined,
      port: nodePort,
      rules: atNodePort,
      ...(hasSources && isFilteredKind(service, 'NodePort') && { isFiltered: true as const }),
    } as const;
    frontends.push(isEndpointPort(work, port) ? { ...frontend, isEndpointPort: true } : frontend);
  }
  return { frontends: exactList(frontends), onNode };
}

/** Of either family, ready or not: an endpoint must be able to bind its port before it becomes ready. */
const isEndpointPort = ({ slices }: Work, { name, protocol, nodePort }: ServicePort): boolean =>
  slices.some(({ ports }) =>
    ports.some(
      (port) => port.name === name && port.protocol === protocol && port.port === nodePort,
    ),
  );

/** In an ownership conflict the older Service keeps the frontend, and the other one gets a rejection. */
function isOwnedByOther({ key, context, reject }: Work, frontend: string, field: string): boolean {
  const owner = context.otherOwner(frontend, key);
  if (owner === undefined) return false;
  reject(
    field,
    `${frontend} already belongs to Service ${owner}, which is older or has served it before`,
  );
  return true;
}

/** Distinct addresses: several ports may have the same endpoint. */
type ReadyLocal = PerFamily<Set<string>>;

const newReadyLocal = (): ReadyLocal => ({ IPv4: new Set(), IPv6: new Set() });

function addLocal(ready: BackendList, into: Set<string>): void {
  for (const { isLocal, address } of ready) {
    if (isLocal) into.add(address);
  }
}

function buildHealthCheck(work: Work, readyLocal: ReadyLocal): HealthCheck | undefined {
  const port = work.service.healthCheckNodePort;
  if (port === undefined) return undefined;
  const families = FAMILIES.filter(
    (family) =>
      work.service.clusterIps[family] !== undefined &&
      !isOwnedByOther(work, nodePortKey(port, 'TCP', family), 'spec.healthCheckNodePort'),
  );
  if (families.length === 0) return undefined;
  const { IPv4, IPv6 } = readyLocal;
  return { port, families, localEndpoints: { IPv4: IPv4.size, IPv6: IPv6.size } };
}
