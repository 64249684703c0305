// SPDX-License-Identifier: Apache-2.0
// The pods and Services of the demo: those of examples/demo, and one without endpoints.
// Node and EndpointSlices of the examples are left out: node and pods of the demo have addresses of their own.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadAll } from 'js-yaml';
import { packageRoot } from '../../src/sys/package.ts';
import type { Instance } from '../lab/agent.ts';
import { type Endpoint, endpointSlices, type Manifest, type SlicePort } from '../lab/manifests.ts';

export const WEB_PODS = ['web-1', 'web-2', 'web-3', 'web-4', 'web-5', 'web-6', 'web-7', 'web-8'];
export const DNS_PODS = ['dns-1', 'dns-2', 'dns-3'];
export const CLIENT_PODS = ['client-1', 'client-2'];

/** `cart` has session affinity, `empty` has no endpoints. */
export type ServiceName = 'web' | 'dns' | 'cart' | 'empty';

/** The port that clients use and the port that pods listen on. */
export interface ServiceFacts {
  readonly clusterIps: readonly string[];
  readonly port: number;
  readonly slicePort: SlicePort;
}

export interface Examples {
  /** The Services, as in the files. */
  readonly manifests: readonly Manifest[];
  readonly services: Readonly<Record<ServiceName, ServiceFacts>>;
}

/** The part of a Service that the demo reads. */
interface ServiceManifest extends Manifest {
  readonly kind: 'Service';
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: Manifest & {
    readonly clusterIPs: readonly string[];
    readonly ports: readonly {
      readonly name: string;
      readonly protocol: 'TCP' | 'UDP';
      readonly port: number;
      readonly targetPort: number;
    }[];
  };
}

const EMPTY: ServiceManifest = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'empty', namespace: 'default' },
  spec: {
    type: 'ClusterIP',
    clusterIP: '192.0.2.30',
    clusterIPs: ['192.0.2.30', '2001:db8::30'],
    ipFamilies: ['IPv4', 'IPv6'],
    ipFamilyPolicy: 'RequireDualStack',
    ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080 }],
  },
};

/** Reads examples/demo. Throws if a Service the phases need is not there. */
export function readExamples(folder = join(packageRoot(), 'examples', 'demo')): Examples {
  const objects = readdirSync(folder)
    .filter((file) => file.endsWith('.yaml'))
    .sort()
    .flatMap((file): unknown[] => loadAll(readFileSync(join(folder, file), 'utf8')));
  const manifests = [...objects.filter(isManifest), EMPTY].filter(isService);
  const facts = (name: ServiceName): ServiceFacts => {
    const service = manifests.find(({ metadata }) => metadata.name === name);
    const [port] = service?.spec.ports ?? [];
    if (service === undefined || port === undefined)
      throw new Error(`${folder}: no Service ${name}`);
    const slicePort = { name: port.name, port: port.targetPort, protocol: port.protocol };
    return { clusterIps: service.spec.clusterIPs, port: port.port, slicePort };
  };
  const services = {
    ...{ web: facts('web'), dns: facts('dns') },
    ...{ cart: facts('cart'), empty: facts('empty') },
  };
  return { manifests, services };
}

function isManifest(object: unknown): object is Manifest {
  return typeof object === 'object' && object !== null;
}

/** The files are ours and tests read them: kind alone decides. */
function isService(manifest: Manifest): manifest is ServiceManifest {
  return manifest['kind'] === 'Service';
}

/** Every port that some pod must answer on. */
export function serverPorts({ services }: Examples): number[] {
  return [...new Set(Object.values(services).map(({ slicePort }) => slicePort.port))];
}

/** Replaces the EndpointSlices of one Service; returns when they were in place. */
export function putEndpoints(
  { manifests }: Instance,
  { services }: Examples,
  change: { readonly service: ServiceName; readonly endpoints: readonly Endpoint[] },
): number {
  const { service, endpoints } = change;
  const { clusterIps, slicePort } = services[service];
  const families = clusterIps.map((address) => (address.includes(':') ? 'IPv6' : 'IPv4'));
  const slices = endpointSlices(service, slicePort, endpoints);
  return manifests.put(
    `${service}-endpoints.yaml`,
    slices.filter(({ addressType }) => families.some((family) => family === addressType)),
  );
}
