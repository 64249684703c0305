// SPDX-License-Identifier: Apache-2.0
// What the kernel should hold, computed independently of the product from nothing but which Service has which ready
// endpoints. And random changes of that.
import fc from 'fast-check';
import type { Endpoint, Manifest } from '../../tools/lab/manifests.ts';
import { clusterIps, type ServiceSpec, slices, svc } from './builders.ts';
import { chance, some } from './random.ts';

export interface ModelService {
  readonly spec: ServiceSpec;
  readonly endpoints: readonly Endpoint[];
}

export interface Model {
  /** A Service and its slices are separate objects: either may exist without the other. */
  readonly services: Map<string, ServiceSpec>;
  readonly slices: Map<string, ModelService>;
}

export const emptyModel = (): Model => ({ services: new Map(), slices: new Map() });

type Action = 'remove Service' | 'remove slices' | 'put Service' | 'put slices';

/** One change of the model: of which Service, and what it is to be, as far as the action asks. */
export interface Change {
  readonly n: number;
  readonly action: Action;
  /** Ports and protocol of a Service that is new, or given others. */
  readonly spec: Omit<ServiceSpec, 'n'>;
  readonly isSpecKept: boolean;
  /** Of each pod. */
  readonly endpoints: readonly ('absent' | 'ready' | 'unready')[];
}

export const serviceNumber: fc.Arbitrary<number> = fc.integer({ min: 1, max: 6 });

const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 12, arbitrary: some('remove Service') },
  { weight: 8, arbitrary: some('remove slices') },
  { weight: 25, arbitrary: some('put Service') },
  { weight: 55, arbitrary: some('put slices') },
);

const endpoint = fc.oneof(
  { weight: 40, arbitrary: some('absent') },
  { weight: 51, arbitrary: some('ready') },
  { weight: 9, arbitrary: some('unready') },
);

export const changes = (podCount: number): fc.Arbitrary<Change> =>
  fc.record({
    n: serviceNumber,
    action,
    spec: fc.record({
      port: some(80, 443, 53),
      targetPort: some(8080, 8081, 5353),
      protocol: chance(70).map((isTcp) => (isTcp ? 'TCP' : 'UDP')),
    }),
    isSpecKept: fc.boolean(),
    endpoints: fc.array(endpoint, { minLength: podCount, maxLength: podCount }),
  });

/** Applies the change and returns the resulting file; undefined content means that it is removed. */
export function change(
  model: Model,
  pods: readonly Endpoint['pod'][],
  { n, action, spec, isSpecKept, endpoints }: Change,
): { readonly file: string; readonly content: Manifest[] | undefined } {
  const name = `svc-${n}`;
  const known = model.services.get(name) ?? model.slices.get(name)?.spec ?? { n, ...spec };
  const [serviceFile, slicesFile] = [`${name}.yaml`, `${name}-slices.yaml`];
  switch (action) {
    case 'remove Service':
      model.services.delete(name);
      return { file: serviceFile, content: undefined };
    case 'remove slices':
      model.slices.delete(name);
      return { file: slicesFile, content: undefined };
    case 'put Service': {
      const next = isSpecKept ? known : { n, ...spec };
      model.services.set(name, next);
      return { file: serviceFile, content: [svc(name, next)] };
    }
    case 'put slices': {
      const listed = pods
        .map((pod, index) => ({ pod, isReady: endpoints[index] === 'ready' }))
        .filter((_, index) => endpoints[index] !== 'absent');
      model.slices.set(name, { spec: known, endpoints: listed });
      return { file: slicesFile, content: slices(name, listed, known) };
    }
  }
}

/** Frontends and their backends: `10.96.0.1:80/TCP` -> `10.1.1.10:8080 10.1.1.11:8080`, sorted. */
export function expectedFrontends(model: Model): Record<string, string> {
  const rows: Record<string, string> = {};
  for (const [name, spec] of model.services) {
    for (const family of ['ipv4', 'ipv6'] as const) {
      const frontend = joined(clusterIps(spec.n)[family], spec.port ?? 80);
      rows[`${frontend}/${spec.protocol}`] = backendsOf(model, name)
        .map(({ pod, port }) => joined(pod[family], port))
        .sort()
        .join(' ');
    }
  }
  return rows;
}

/** Names of the pods that may answer; if empty, connections are rejected. */
export function expectedPods(model: Model, name: string): string[] {
  return backendsOf(model, name).map(({ pod }) => pod.name);
}

/** A slice's port counts if its name is the Service port's and its protocol too; its number is its own. */
function backendsOf(model: Model, name: string): { pod: Endpoint['pod']; port: number }[] {
  const slice = model.slices.get(name);
  const service = model.services.get(name);
  if (slice === undefined || service?.protocol !== slice.spec.protocol) return [];
  const ready = slice.endpoints.filter(({ isReady }) => isReady !== false);
  return ready.map(({ pod }) => ({ pod, port: slice.spec.targetPort ?? 8080 }));
}

function joined(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
