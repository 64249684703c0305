// SPDX-License-Identifier: Apache-2.0
// Fills a control plane with many Services and their EndpointSlices, as fast as the API server accepts them.
// A Service's addresses follow from its number alone, so that runs can be compared.
import {
  type ApiObject,
  readyEndpoint,
  serviceObject,
  sliceMetadata,
  sliceObject,
} from '../../../support/objects.ts';
import type { Api } from './api.ts';
import { servicesPath, slicesPath } from './objects.ts';

const MANAGED_BY = 'load.fairlead.test';
const MAX_ENDPOINTS = 128;

export interface LoadSpec {
  readonly services: number;
  readonly endpointsEach: number;
  /** Concurrent requests; two cores serve no more than this. */
  readonly parallel?: number;
  /** Number of the first Service. */
  readonly from?: number;
  /** Addresses for some Services: real backends among the fictitious ones. */
  readonly endpointsOf?: (service: number) => readonly string[] | undefined;
}

export interface LoadReport {
  readonly objects: number;
  readonly elapsedMs: number;
}

/**
 * Makes the Services, each with one slice. Stops at the first refusal. Quadratic, and not because of us: for
 * every address it gives, the API server counts those it gave (ipallocator.Used, Kubernetes 1.36).
 */
export async function load(api: Api, spec: LoadSpec): Promise<LoadReport> {
  const { services, parallel = 32, from = 0 } = spec;
  const startedMs = performance.now();
  await forEachNumber(services, parallel, async (offset) => {
    const number = from + offset;
    await api.create(servicesPath(), serviceObject(serviceName(number)));
    await api.create(slicesPath(), loadedSlice(number, endpointsOf(number, spec)));
  });
  return { objects: 2 * services, elapsedMs: performance.now() - startedMs };
}

export function serviceName(number: number): string {
  return `load-${String(number).padStart(6, '0')}`;
}

/** An unused address in 10.128.0.0/9: room for 65,536 Services with 128 endpoints. */
export function endpointAddress(service: number, endpoint: number): string {
  const host = service * MAX_ENDPOINTS + endpoint;
  return `10.${128 + (host >> 16)}.${(host >> 8) & 255}.${host & 255}`;
}

/** The addresses of a Service after this many changes, each of which replaces one address. */
export function changedAddresses(
  service: number,
  endpointsEach: number,
  changes: number,
): readonly string[] {
  const spare = MAX_ENDPOINTS - endpointsEach;
  return Array.from({ length: endpointsEach }, (_, index) => {
    const isChanged = changes > 0 && index === changes % endpointsEach;
    const endpoint = isChanged ? endpointsEach + (changes % spare) : index;
    return endpointAddress(service, endpoint);
  });
}

/** The slice of a loaded Service, to create it or to replace its addresses. */
export function loadedSlice(number: number, addresses: readonly string[]): ApiObject {
  const name = serviceName(number);
  const labels = { 'endpointslice.kubernetes.io/managed-by': MANAGED_BY };
  const endpoints = addresses.map((address) => readyEndpoint(address));
  return sliceObject(name, endpoints, { metadata: sliceMetadata(name, name, labels) });
}

function endpointsOf(number: number, { endpointsEach, endpointsOf }: LoadSpec): readonly string[] {
  const invented = (): string[] =>
    Array.from({ length: endpointsEach }, (_, index) => endpointAddress(number, index));
  return endpointsOf?.(number) ?? invented();
}

async function forEachNumber(
  count: number,
  parallel: number,
  work: (number: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const number = next;
      next += 1;
      await work(number);
    }
  };
  await Promise.all(Array.from({ length: parallel }, worker));
}
