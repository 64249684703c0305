// SPDX-License-Identifier: Apache-2.0
// What the files of the CNI say about the network of pods, and about a mesh. Pure.
import type { CniFile, CniFiles, OwnFacts } from '../facts.ts';
import type { Finding } from '../finding.ts';

/** Plugins that serve Services themselves, or can: what to switch off. */
const SERVES: Readonly<Record<string, string>> = {
  'cilium-cni': 'set kubeProxyReplacement=false in Cilium, unless Cilium is to serve Services',
  antrea: 'set antreaProxy.proxyAll=false in Antrea, unless Antrea is to serve Services',
  'ovn-k8s-cni-overlay': 'OVN-Kubernetes cannot do without: fairlead is not needed there',
  'kube-router': 'start kube-router without --run-service-proxy',
};

const MESHES: Readonly<Record<string, string>> = {
  'istio-cni': 'Istio',
  'linkerd-cni': 'Linkerd',
};

export function cniFindings({ folder, files }: CniFiles): readonly Finding[] {
  if (files === undefined) return [unseen(`${folder} is not visible to this process`, folder)];
  const used = files.find(({ problem }) => problem === undefined);
  return [
    ...files.flatMap((file) => problemOf(folder, file)),
    ...(used === undefined ? [unseen(`${folder} has no CNI configuration`, folder)] : []),
    ...(used === undefined ? [] : [ofPlugins(folder, used)]),
  ];
}

const unseen = (what: string, folder: string): Finding => ({
  topic: 'cni',
  what,
  consequence: 'which plugin makes the network of pods is not known; nothing depends on it',
  advice: `on a node, mount the host's ${folder} into the container, or name it by --cni-conf-dir`,
  breaksServices: false,
});

const problemOf = (folder: string, { file, problem }: CniFile): readonly Finding[] =>
  problem === undefined
    ? []
    : [
        {
          topic: 'cni',
          what: `${folder}/${file}: ${problem}`,
          consequence: 'container runtimes skip it',
          advice: 'repair or remove the file',
          breaksServices: false,
        },
      ];

function ofPlugins(folder: string, { file, plugins }: CniFile): Finding {
  const proxy = plugins.find((plugin) => SERVES[plugin] !== undefined);
  const advice = proxy === undefined ? undefined : SERVES[proxy];
  return {
    topic: 'cni',
    what: `${folder}/${file}: ${plugins.join(', ')}`,
    consequence:
      proxy === undefined
        ? 'none: the devices of pods are recognized by their kind'
        : `${proxy} may serve the same Services, and then the program that is first decides`,
    ...(advice !== undefined && { advice }),
    breaksServices: false,
  };
}

export function meshFindings(
  { folder, files = [] }: CniFiles,
  { sockets }: Pick<OwnFacts, 'sockets'>,
): readonly Finding[] {
  return files.flatMap(({ file, plugins }) =>
    plugins
      .filter((plugin) => MESHES[plugin] !== undefined)
      .map(
        (plugin): Finding => ({
          topic: 'mesh',
          what: `${folder}/${file}: ${plugin} (${MESHES[plugin]})`,
          consequence: MESH_CONSEQUENCES[sockets ?? 'unknown'],
          ...(sockets === 'pods' && { advice: MESH_ADVICE }),
          breaksServices: false,
        }),
      ),
  );
}

/** By --socket-scope as it is used. */
const MESH_CONSEQUENCES: Readonly<Record<NonNullable<OwnFacts['sockets']> | 'unknown', string>> = {
  auto: 'a pod whose rules redirect its connections is served as packets: its proxy sees Services',
  host: 'every pod is served as packets: the proxy of a pod sees Services',
  pods: 'connections of pods are translated at the socket: a proxy that asks for the original destination (SO_ORIGINAL_DST) gets an endpoint',
  none: 'rules of the node see a connection after the rules of the pod: its proxy sees Services',
  unknown:
    'with --socket-scope auto, the default, a pod whose rules redirect its connections is served as packets: its proxy sees Services',
};
const MESH_ADVICE =
  'set `--socket-scope host`, or `auto`, which needs SYS_ADMIN and programs or rules for packets';
