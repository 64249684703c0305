// SPDX-License-Identifier: Apache-2.0
// Nodes and Pods without a kubelet: objects whose status is set by tests, so that the real EndpointSlice
// controller sees what it would see in a cluster. Also API paths of Services and what belongs to them.
import type { V1Node, V1Pod, V1Service } from '@kubernetes/client-node';
import { serviceObject } from '../../../support/objects.ts';
import type { Api } from './api.ts';

export const NODES = '/api/v1/nodes';
export const podsPath = (namespace = 'default'): string => `/api/v1/namespaces/${namespace}/pods`;
export const servicesPath = (namespace = 'default'): string =>
  `/api/v1/namespaces/${namespace}/services`;
export const slicesPath = (namespace = 'default'): string =>
  `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;

export interface NodeSpec {
  readonly name: string;
  /** InternalIPs, the first family first. */
  readonly addresses: readonly string[];
  readonly zone?: string;
  readonly podCidrs?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
}

/** Creates a Node that is ready. */
export async function addNode(api: Api, spec: NodeSpec): Promise<V1Node> {
  const { name, addresses, zone, podCidrs = [], labels = {} } = spec;
  const zoneLabels = zone === undefined ? {} : { 'topology.kubernetes.io/zone': zone };
  const [podCIDR] = podCidrs;
  const pods = podCIDR === undefined ? {} : { podCIDR, podCIDRs: [...podCidrs] };
  const node: V1Node = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: { 'kubernetes.io/hostname': name, ...zoneLabels, ...labels } },
    spec: pods,
  };
  await api.create(NODES, node);
  const status = {
    addresses: [
      { type: 'Hostname', address: name },
      ...addresses.map((address) => ({ type: 'InternalIP', address })),
    ],
    conditions: [condition('Ready', true)],
    allocatable: { cpu: '2', memory: '4Gi', pods: '110' },
  };
  // A new Node is tainted not-ready until a controller removes the taint, and none runs here.
  await api.patch(`${NODES}/${name}`, { spec: { taints: null } });
  return api.patch(`${NODES}/${name}/status`, { status });
}

export interface PodSpec {
  readonly name: string;
  readonly nodeName: string;
  /** The first family first. */
  readonly ips: readonly string[];
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** Named container ports, for Services with a named target port. */
  readonly ports?: Readonly<Record<string, number>>;
  /** Default: ready. */
  readonly readiness?: Readiness;
}

export type Readiness = 'ready' | 'not-ready';

/** Creates a Pod that runs on its node with its addresses. */
export async function addPod(api: Api, spec: PodSpec): Promise<V1Pod> {
  const { name, namespace = 'default', nodeName, labels = {}, ports = {} } = spec;
  const containerPorts = Object.entries(ports).map(([portName, containerPort]) => ({
    name: portName,
    containerPort,
  }));
  const pod: V1Pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, labels: { ...labels } },
    spec: { nodeName, containers: [{ name: 'main', image: 'none', ports: containerPorts }] },
  };
  await api.create(podsPath(namespace), pod);
  return setPod(api, spec, spec.readiness ?? 'ready');
}

/** Sets the status a kubelet would report: running with these addresses, ready or not. */
export function setPod(
  api: Api,
  { name, namespace, ips }: Pick<PodSpec, 'name' | 'namespace' | 'ips'>,
  readiness: Readiness,
): Promise<V1Pod> {
  const isReady = readiness === 'ready';
  const conditions = ['Ready', 'ContainersReady', 'Initialized', 'PodScheduled'].map((type) =>
    condition(type, isReady || type === 'Initialized' || type === 'PodScheduled'),
  );
  const podIPs = ips.map((ip) => ({ ip }));
  const status = { phase: 'Running', podIP: ips[0], podIPs, conditions };
  return api.patch(`${podsPath(namespace)}/${name}/status`, { status });
}

/** Deletes the Pod gracefully; it keeps running, so its endpoint is terminating. */
export function terminatePod(api: Api, name: string, namespace?: string): Promise<void> {
  return api.remove(`${podsPath(namespace)}/${name}`, { gracePeriodSeconds: 300 });
}

/** Deletes the Pod immediately. */
export function removePod(api: Api, name: string, namespace?: string): Promise<void> {
  return api.remove(`${podsPath(namespace)}/${name}`, { gracePeriodSeconds: 0 });
}

/** Creates a Service with one TCP port `http`, 80 → `targetPort`; `spec` overrides and adds fields. */
export function addService(
  api: Api,
  name: string,
  spec: V1Service['spec'],
  namespace?: string,
): Promise<V1Service> {
  return api.create<V1Service>(servicesPath(namespace), serviceObject(name, spec));
}

function condition(type: string, isTrue: boolean): { type: string; status: string } {
  return { type, status: isTrue ? 'True' : 'False' };
}
