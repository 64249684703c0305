// SPDX-License-Identifier: Apache-2.0
// What the kernel should hold, told independently of the product: a few lines that know only which
// Service has which ready endpoints. Histories are random but repeatable.
import type { Endpoint, Manifest } from '../../src/lab/manifests.ts';
import { clusterIps, type ServiceSpec, slices, svc } from './builders.ts';

export interface ModelService {
  readonly spec: ServiceSpec;
  readonly endpoints: readonly Endpoint[];
}

export interface Model {
  /** A Service and its slices are separate objects: either may be there without the other. */
  readonly services: Map<string, ServiceSpec>;
  readonly slices: Map<string, ModelService>;
}

export type Random = () => number;

/** mulberry32: a small generator that is good enough to choose with. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export function pick<T>(random: Random, things: readonly T[]): T {
  return things[Math.floor(random() * things.length)]!;
}

const PORTS = [80, 443, 53];
const TARGET_PORTS = [8080, 8081, 5353];

/** One random change of the model, and the file it amounts to: undefined content means removal. */
export function change(
  model: Model,
  pods: readonly Endpoint['pod'][],
  random: Random,
): { readonly file: string; readonly content: Manifest[] | undefined } {
  const n = 1 + Math.floor(random() * 6);
  const name = `svc-${n}`;
  const spec = model.services.get(name) ?? model.slices.get(name)?.spec ?? randomSpec(n, random);
  const action = random();
  if (action < 0.12) {
    model.services.delete(name);
    return { file: `${name}.yaml`, content: undefined };
  }
  if (action < 0.2) {
    model.slices.delete(name);
    return { file: `${name}-slices.yaml`, content: undefined };
  }
  if (action < 0.45) {
    const next = random() < 0.5 ? spec : randomSpec(n, random);
    model.services.set(name, next);
    return { file: `${name}.yaml`, content: [svc(name, next)] };
  }
  const endpoints = pods
    .filter(() => random() < 0.6)
    .map((pod) => ({ pod, isReady: random() < 0.85 }));
  model.slices.set(name, { spec, endpoints });
  return { file: `${name}-slices.yaml`, content: slices(name, endpoints, spec) };
}

function randomSpec(n: number, random: Random): ServiceSpec {
  const protocol = random() < 0.7 ? 'TCP' : 'UDP';
  return { n, port: pick(random, PORTS), targetPort: pick(random, TARGET_PORTS), protocol };
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

/** Names of the pods that may answer; empty means refusal. */
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
