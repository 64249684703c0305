// SPDX-License-Identifier: Apache-2.0
// Objects of the tests' pods. Pure.
import { serviceObject } from '../../../support/objects.ts';

const IMAGE = 'e2e-pod:1';
export const SERVER_PORT = 8080;
/** Where a client pod takes orders. */
export const CONTROL_PORT = 9000;
/** A pod that ends serves for as long as proxies may need to learn of it. */
const DRAIN = '5s';

/** A pod that requests nothing gets no processor on a machine with other work. */
const resources = { requests: { cpu: '60m' } };
/** On such a machine a probe may take seconds. */
export const SLOW_PROBE = { timeoutSeconds: 10, failureThreshold: 6 };

interface PodOptions {
  readonly nodeName?: string;
  readonly hostNetwork?: boolean;
}

/** A pod that generates load as `startLoad` says. */
export const clientPod = (name: string, options: PodOptions = {}): object => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, labels: { app: name } },
  spec: { ...podSpec(['load', `:${CONTROL_PORT}`]), ...options },
});

export const podSpec = (args: readonly string[]): object => ({
  terminationGracePeriodSeconds: 10,
  tolerations: [{ operator: 'Exists' }],
  containers: [{ name: 'pod', image: IMAGE, imagePullPolicy: 'Never', args, resources }],
});

const serverSpec = (name: string, args: readonly string[]): object => ({
  terminationGracePeriodSeconds: 10,
  // On both nodes.
  topologySpreadConstraints: [
    {
      maxSkew: 1,
      topologyKey: 'kubernetes.io/hostname',
      whenUnsatisfiable: 'ScheduleAnyway',
      labelSelector: { matchLabels: { app: name } },
    },
  ],
  containers: [
    {
      ...{ name: 'pod', image: IMAGE, imagePullPolicy: 'Never', args, resources },
      ports: [{ containerPort: SERVER_PORT }],
      readinessProbe: { tcpSocket: { port: SERVER_PORT }, periodSeconds: 1, ...SLOW_PROBE },
    },
  ],
});

const workload = (kind: string, name: string, spec: object): object => ({
  apiVersion: 'apps/v1',
  kind,
  metadata: { name },
  spec: { selector: { matchLabels: { app: name } }, ...spec },
});

const template = (name: string, spec: object): object => ({
  template: { metadata: { labels: { app: name } }, spec },
});

/** Servers that are replaced one by one, each new one first. */
export const deployment = (
  name: string,
  replicas: number,
  args: readonly string[] = ['serve', `:${SERVER_PORT}`, DRAIN],
): object =>
  workload('Deployment', name, {
    replicas,
    strategy: { rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
    ...template(name, serverSpec(name, args)),
  });

export const statefulSet = (name: string, replicas: number): object =>
  workload('StatefulSet', name, {
    replicas,
    serviceName: name,
    podManagementPolicy: 'Parallel',
    ...template(name, serverSpec(name, ['serve', `:${SERVER_PORT}`, DRAIN])),
  });

/** A Service of `name`'s pods; `spec` adds to it or replaces parts of it. */
export const podService = (name: string, spec: object = {}): object =>
  serviceObject(name, {
    selector: { app: name },
    ports: [
      { name: 'http', port: 80, targetPort: SERVER_PORT },
      { name: 'udp', port: 80, targetPort: SERVER_PORT, protocol: 'UDP' },
    ],
    ...spec,
  });
