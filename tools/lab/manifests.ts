// SPDX-License-Identifier: Apache-2.0
// The manifest folder of one node, and builders for the objects that describe the topology: Node and
// EndpointSlices. Files are replaced atomically, by a rename.

import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dump } from 'js-yaml';
import { SERVICE_NAME_LABEL } from '../../src/model/labels.ts';
import { FAMILIES } from '../../src/model/types.ts';
import { nowMs } from './client/clock.ts';
import { type NodeHost, type Pod, podCidrs } from './wiring.ts';

/** Any Kubernetes object; not validated. */
export type Manifest = Readonly<Record<string, unknown>>;

export interface Endpoint {
  readonly pod: Pick<Pod, 'name' | 'nodeName' | 'ipv4' | 'ipv6'>;
  /** Default true. A kubelet sets it to false before it stops a pod. */
  readonly isReady?: boolean;
  /** Its pod is being stopped, and serves until it is gone; then it is not ready. */
  readonly isTerminating?: boolean;
}

export interface SlicePort {
  readonly name: string;
  readonly port: number;
  readonly protocol: 'TCP' | 'UDP';
}

/** The EndpointSlices of one Service, one for each family, as the endpointslice controller writes them. */
export function endpointSlices(
  service: string,
  port: SlicePort,
  endpoints: readonly Endpoint[],
): Manifest[] {
  return FAMILIES.map((addressType) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `${service}-${addressType.toLowerCase()}`,
      namespace: 'default',
      labels: { [SERVICE_NAME_LABEL]: service },
    },
    addressType,
    ports: [port],
    endpoints: endpoints.map(({ pod, isTerminating = false, isReady = !isTerminating }) => ({
      addresses: [addressType === 'IPv4' ? pod.ipv4 : pod.ipv6],
      conditions: {
        ready: isReady,
        serving: isReady || isTerminating,
        terminating: isTerminating,
      },
      nodeName: pod.nodeName,
      targetRef: { kind: 'Pod', namespace: 'default', name: pod.name },
    })),
  }));
}

/** The Node object a kubelet on this node would register. */
export function nodeManifest({ name, index, ipv4, ipv6 }: NodeHost): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name },
    spec: { podCIDRs: podCidrs(index) },
    status: {
      addresses: [ipv4, ipv6].map((address) => ({ type: 'InternalIP', address })),
    },
  };
}

export interface ManifestDirectory {
  readonly path: string;
  /** Replaces one file by these objects; returns when (ms since the epoch) they were in place. */
  put(file: string, manifests: readonly Manifest[]): number;
  /** Replaces one file by any text, for invalid manifests. */
  putText(file: string, text: string | Uint8Array): number;
  remove(file: string): void;
}

/** `path` must exist; so must its parent, where files are written before they are renamed. */
export function openManifests(path: string): ManifestDirectory {
  const putText = (file: string, text: string | Uint8Array): number => {
    const draft = `${path}.draft-${file}`;
    writeFileSync(draft, text);
    renameSync(draft, join(path, file));
    return nowMs();
  };
  return {
    path,
    putText,
    put: (file, manifests) =>
      putText(file, manifests.map((manifest) => dump(manifest, { noRefs: true })).join('---\n')),
    remove: (file) => rmSync(join(path, file), { force: true }),
  };
}
