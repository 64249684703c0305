// SPDX-License-Identifier: Apache-2.0
// `fairlead compare` on each node of a cluster, and kube-proxy's rules as they were, to be compared when they are gone.
import { expect } from 'vitest';
import type { RealCluster } from '../nodes/nodes.ts';
import { onAgent, type ProxyMode } from './proxies.ts';

/** The folder of the node that the agent has, too. */
const FOLDER = '/run/fairlead';
const SETTINGS = '--config=/var/lib/kube-proxy/config.conf';
/** Of that file, for a DaemonSet that does not have it. */
export const POD_RANGES = '--cluster-cidr=10.1.0.0/16,fd00:10::/32';
/** kube-proxy is a second or more behind the API server. */
const LATE = '--retry-after=5s';

/** Each line writes a file; kube-proxy chooses one of the two kinds of iptables. */
const SAVES: Readonly<Record<Exclude<ProxyMode, ''>, string>> = {
  iptables: `for kind in nft legacy; do
  iptables-$kind-save | grep -q KUBE-SVC- || continue
  iptables-$kind-save >${FOLDER}/before.4 && ip6tables-$kind-save >${FOLDER}/before.6
done`,
  nftables: `nft -y list ruleset >${FOLDER}/before.4 && cp ${FOLDER}/before.4 ${FOLDER}/before.6`,
};
export const SAVED = [`${FOLDER}/before.4`, `${FOLDER}/before.6`] as const;

export async function saveRules(
  { nodes }: RealCluster,
  mode: Exclude<ProxyMode, ''>,
): Promise<void> {
  for (const node of nodes) {
    const script = `set -e; mkdir -p ${FOLDER}; ${SAVES[mode]}; test -s ${SAVED[0]} -a -s ${SAVED[1]}`;
    const { code, stderr } = await node.run(['sh', '-c', script]);
    expect({ node: node.name, code, stderr }).toMatchObject({ code: 0 });
  }
}

/**
 * Nothing differs but for a known reason, on any node.
 * @param sides none: the plan, and the rules of the node
 */
export async function expectSame(
  cluster: RealCluster,
  daemonSet: 'kube-proxy' | 'fairlead',
  sides: readonly string[] = [],
  settings = SETTINGS,
): Promise<void> {
  for (const { name } of cluster.nodes) {
    const flags = [settings, LATE, `--hostname-override=${name}`];
    const said = await onAgent(cluster, name, ['compare', ...sides, ...flags], daemonSet);
    const proven = said.split('\n').filter((line) => line.startsWith('IPv'));
    expect(proven).not.toEqual([]);
    for (const line of proven) process.stderr.write(`${name}: ${line}\n`);
  }
}
