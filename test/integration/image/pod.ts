// SPDX-License-Identifier: Apache-2.0
// A minimal kubelet: reads a DaemonSet's Pod from the API server and turns each container into arguments of a
// container runtime. An unknown field is an error, so that no setting of a manifest is silently ignored.
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type {
  V1Container,
  V1DaemonSet,
  V1PodSpec,
  V1Volume,
  V1VolumeMount,
} from '@kubernetes/client-node';
import type { ControlPlane } from '../cluster/control-plane/control-plane.ts';
import { type ContainerSpec, everyCapability } from './container.ts';
import { bindMount, type ContainerMount } from './mounts.ts';

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

export interface PodHost {
  readonly nodeName: string;
  /** The node's root: hostPath /x is x below it. */
  readonly root: string;
  /** For the Pod's ConfigMaps and token. */
  readonly directory: string;
}

export interface PodContainers {
  readonly init: readonly ContainerSpec[];
  readonly main: readonly ContainerSpec[];
  readonly spec: V1PodSpec;
}

export async function podOf(
  plane: ControlPlane,
  host: PodHost,
  daemonSet: string,
): Promise<PodContainers> {
  const path = `/apis/apps/v1/namespaces/kube-system/daemonsets/${daemonSet}`;
  const { spec } = await plane.api.get<V1DaemonSet>(path);
  const pod = spec?.template.spec;
  if (pod === undefined) throw new Error(`DaemonSet ${daemonSet} has no Pod`);
  if (pod.hostNetwork !== true) throw new Error('only Pods with hostNetwork are supported');
  const sources = new Map<string, string>();
  for (const volume of pod.volumes ?? []) {
    sources.set(volume.name, await volumeSource(plane, host, volume));
  }
  const token = await writeToken(plane, host, pod.serviceAccountName ?? 'default');
  const everything = await everyCapability();
  const specOf = (container: V1Container): ContainerSpec => ({
    ...containerSpec(container, host, everything),
    mounts: [...(container.volumeMounts ?? []).map((each) => volumeMount(each, sources)), token],
  });
  return {
    init: (pod.initContainers ?? []).map(specOf),
    main: pod.containers.map(specOf),
    spec: pod,
  };
}

function containerSpec(
  { name, command, args, env = [], securityContext = {} }: V1Container,
  { nodeName }: PodHost,
  everything: readonly string[],
): Omit<ContainerSpec, 'mounts'> {
  const isPrivileged = securityContext.privileged === true;
  const { add = [], drop = [] } = securityContext.capabilities ?? {};
  if (!isPrivileged && drop.join() !== 'ALL')
    throw new Error('an unprivileged container must drop ALL capabilities');
  const values: Record<string, string> = {};
  for (const { name: variable, value, valueFrom } of env) {
    const path = valueFrom?.fieldRef?.fieldPath;
    if (value === undefined && path !== 'spec.nodeName')
      throw new Error(`the source of variable ${variable} is not supported`);
    values[variable] = value ?? nodeName;
  }
  const expand = (text: string): string =>
    text.replaceAll(/\$\((\w+)\)/g, (whole, variable: string) => values[variable] ?? whole);
  return {
    name,
    ...(command && { command: command.map(expand) }),
    ...(args && { args: args.map(expand) }),
    env: { ...values, KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' },
    capabilities: isPrivileged ? everything : add,
    isPrivileged,
    isRootReadOnly: securityContext.readOnlyRootFilesystem === true,
    mayGainPrivileges: securityContext.allowPrivilegeEscalation !== false,
    isFiltered: securityContext.seccompProfile?.type === 'RuntimeDefault',
  };
}

function volumeMount(mount: V1VolumeMount, sources: ReadonlyMap<string, string>): ContainerMount {
  const source = sources.get(mount.name);
  if (source === undefined || mount.subPath !== undefined)
    throw new Error(`volume ${mount.name} is missing, or mounted with a subPath`);
  const { mountPath, readOnly = false, mountPropagation } = mount;
  return bindMount(source, mountPath, readOnly, mountPropagation);
}

/** The path of a volume's files on this machine. */
async function volumeSource(plane: ControlPlane, host: PodHost, volume: V1Volume): Promise<string> {
  const { name, hostPath, configMap, emptyDir } = volume;
  // Another one each time: that of a container which runs stays as it is.
  if (emptyDir !== undefined) return mkdtempSync(join(host.directory, `volume-${name}-`));
  if (hostPath !== undefined) {
    const path = join(host.root, hostPath.path);
    if (hostPath.type?.endsWith('OrCreate')) create(path, hostPath.type);
    return path;
  }
  if (configMap === undefined) throw new Error(`volume ${name} is of an unsupported kind`);
  const path = `/api/v1/namespaces/kube-system/configmaps/${configMap.name}`;
  const { data = {} } = await plane.api.get<{ data?: Record<string, string> }>(path);
  return writeFolder(join(host.directory, `volume-${name}`), data);
}

function create(path: string, type: string): void {
  if (type === 'DirectoryOrCreate') mkdirSync(path, { recursive: true });
  else {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, '', { flag: 'a' });
  }
}

async function writeToken(
  plane: ControlPlane,
  host: PodHost,
  account: string,
): Promise<ContainerMount> {
  const token = await plane.kubectl(['create', 'token', account, '-n', 'kube-system']);
  const ca = readFileSync(plane.certificates.ca, 'utf8');
  const folder = join(host.directory, `token-${account}`);
  const source = writeFolder(folder, { token: token.trim(), 'ca.crt': ca });
  return bindMount(source, SERVICE_ACCOUNT, true);
}

function writeFolder(folder: string, files: Readonly<Record<string, string>>): string {
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}
