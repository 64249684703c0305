// SPDX-License-Identifier: Apache-2.0
// The settings of what runs on a node. Pure: the contents of files, by name.
import { dump } from 'js-yaml';

export const SOCKET = '/run/containerd/containerd.sock';
export const DNS_ADDRESS = '10.96.0.10';
/** Holds the namespaces of a pod. */
const PAUSE_IMAGE = 'docker.io/library/pause:1';

export interface NodeSettings {
  /** 1-based: part of its addresses. */
  readonly index: number;
  /** A folder with the CNI plugins. */
  readonly plugins: string;
  readonly runc: string;
  readonly kubeconfig: string;
}

export const podRanges = (index: number): readonly [string, string] => [
  `10.1.${index}.0/24`,
  `fd00:10:${index}::/64`,
];

export const nodeAddress = (index: number): string => `192.168.78.${index}`;

export const nodeFiles = (settings: NodeSettings): Readonly<Record<string, string>> => ({
  'containerd.toml': containerdConfig(settings),
  'kubelet.yaml': dump(KUBELET),
  'cni.conflist': JSON.stringify(network(settings.index)),
  'resolv.conf': 'nameserver 192.0.2.53\n', // Nobody: names outside the cluster have no answer.
  kubeconfig: settings.kubeconfig,
});

/** restrict_oom_score_adj: without the right to lower it below the value of this machine's own processes. */
const containerdConfig = ({ plugins, runc }: NodeSettings): string => `version = 3
root = '/var/lib/containerd'
state = '/run/containerd'
[grpc]
address = '${SOCKET}'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '${PAUSE_IMAGE}'
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = '${runc}'
SystemdCgroup = false
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['${plugins}']
conf_dir = '/etc/cni/net.d'
`;

const KUBELET = {
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
  authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
  authorization: { mode: 'AlwaysAllow' },
  cgroupDriver: 'cgroupfs',
  cgroupsPerQOS: false,
  enforceNodeAllocatable: [],
  failCgroupV1: false,
  failSwapOn: false,
  protectKernelDefaults: true,
  localStorageCapacityIsolation: false,
  evictionHard: { 'memory.available': '0%', 'nodefs.available': '0%', 'imagefs.available': '0%' },
  imageGCHighThresholdPercent: 100,
  clusterDNS: [DNS_ADDRESS],
  clusterDomain: 'cluster.local',
  resolvConf: '/run/resolv.conf',
  containerRuntimeEndpoint: `unix://${SOCKET}`,
  nodeStatusUpdateFrequency: '2s',
};

/** Point to point, as many clouds have it: every packet of a pod is routed by its node. */
const network = (index: number): object => ({
  cniVersion: '1.0.0',
  name: 'pods',
  plugins: [
    {
      type: 'ptp',
      ipMasq: false,
      mtu: 1500,
      ipam: {
        type: 'host-local',
        dataDir: '/run/cni-addresses',
        ranges: podRanges(index).map((subnet) => [{ subnet }]),
        routes: [{ dst: '0.0.0.0/0' }, { dst: '::/0' }],
      },
    },
  ],
});
