// SPDX-License-Identifier: Apache-2.0
// What the files of the CNI say about the network of pods, and about a mesh. Pure.
import type { CniFile, CniFiles } from '../facts.ts';
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

export function meshFindings({ folder, files = [] }: CniFiles): readonly Finding[] {
  return files.flatMap(({ file, plugins }) =>
    plugins
      .filter((plugin) => MESHES[plugin] !== undefined)
      .map(
        (plugin): Finding => ({
          topic: 'mesh',
          what: `${folder}/${file}: ${plugin} (${MESHES[plugin]})`,
          consequence:
            'pods of the mesh redirect their connections to a proxy, which may ask for the address that the client has connected to (SO_ORIGINAL_DST)',
          advice:
            '`fairlead bypass` has pods served as packets, which such a proxy sees as Services',
          breaksServices: false,
        }),
      ),
  );
}
