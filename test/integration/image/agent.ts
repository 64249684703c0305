// SPDX-License-Identifier: Apache-2.0
// The agent of the image on a node with manifests instead of an API server, with the mounts and the security context
// of deploy/kustomize/base.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseYaml } from '../../support/yaml.ts';
import type { ContainerSpec } from './container.ts';
import type { Rooted } from './machine.ts';
import { bindMount, type ContainerMount } from './mounts.ts';

const BASE = fileURLToPath(
  new URL('../../../deploy/kustomize/base/daemon-set.yaml', import.meta.url),
);
const [BASE_CONTAINER] = parseYaml(readFileSync(BASE, 'utf8')).spec.template.spec.containers;
export const CAPABILITIES: readonly string[] = BASE_CONTAINER.securityContext.capabilities.add;

/** What of the base is missing or different. */
export interface Without {
  readonly capability?: string;
  /** Instead of the base's. */
  readonly capabilities?: readonly string[];
  readonly user?: number;
  /** A path in the container. */
  readonly mount?: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  /** A folder of this machine by its path in the container, instead of what the base mounts there. */
  readonly instead?: Readonly<Record<string, string>>;
  readonly under?: readonly string[];
}

export function agentSpec(
  { root }: Rooted,
  manifests: string,
  without: Without = {},
): ContainerSpec {
  const others = Object.entries(without.instead ?? {});
  const isLeftOut = (path: string): boolean =>
    path === without.mount || others.some(([destination]) => destination === path);
  const args = ['run', '--manifests', '/manifests', '--hostname-override', 'n1'];
  return {
    name: 'agent',
    ...(without.under && { under: without.under }),
    ...(without.command && { command: without.command }),
    args: without.args ?? args,
    env: {},
    mounts: [
      ...baseMounts(root).filter(({ destination }) => !isLeftOut(destination)),
      ...others.map(([destination, source]) => bindMount(source, destination, false)),
      bindMount(manifests, '/manifests', true),
    ],
    capabilities: (without.capabilities ?? CAPABILITIES).filter(
      (name) => name !== without.capability,
    ),
    ...(without.user !== undefined && { user: without.user }),
    isPrivileged: false,
    isRootReadOnly: true,
    mayGainPrivileges: false,
    isFiltered: true,
  };
}

interface Volume {
  readonly name: string;
  readonly hostPath?: { readonly path: string; readonly type: string };
}
interface VolumeMount {
  readonly name: string;
  readonly mountPath: string;
  readonly mountPropagation?: string;
}

/** Those of host paths: the others only name the API server. */
function baseMounts(root: string): ContainerMount[] {
  const { volumes } = parseYaml(readFileSync(BASE, 'utf8')).spec.template.spec;
  return (volumes as readonly Volume[]).flatMap(({ name, hostPath }) => {
    if (hostPath === undefined) return [];
    const mount = (BASE_CONTAINER.volumeMounts as readonly VolumeMount[]).find(
      (each) => each.name === name,
    );
    const source = join(root, hostPath.path);
    if (hostPath.type === 'FileOrCreate') {
      mkdirSync(join(source, '..'), { recursive: true });
      writeFileSync(source, '', { flag: 'a' });
    } else mkdirSync(source, { recursive: true });
    return [bindMount(source, mount!.mountPath, false, mount!.mountPropagation)];
  });
}
