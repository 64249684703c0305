// SPDX-License-Identifier: Apache-2.0
// What kube-proxy 1.37 gives iptables-restore for rules that fairlead writes (ADR 26: they are the same but for KUBE-CLUSTER-IPS and
// what belongs to the kubelet): filter and nat in one call, all shared chains in each sync, of Services those chains that changed.

const NOT_KUBE_PROXYS = new Set(['KUBE-CLUSTER-IPS', 'KUBE-FIREWALL', 'KUBE-PROXY-CANARY']);
const OF_SERVICES = /^KUBE-(?:SVC|SVL|EXT|FW|SEP)-/;
const TABLES = ['filter', 'nat'];

/**
 * @param {readonly import('../build/js/engines/iptables/state/diff/diff.js').WantedTable[]} wanted
 * @param {(chain: string) => boolean} isWritten of chains of Services
 */
export function kubeProxyInput(wanted, isWritten = () => true) {
  return TABLES.map((name) => {
    const table = wanted.find((one) => one.name === name);
    const chains = [...table.chains].filter(([chain]) => {
      return !NOT_KUBE_PROXYS.has(chain) && (!OF_SERVICES.test(chain) || isWritten(chain));
    });
    // Named in the order in which they are filled: by Service, so that the hashes in their names have none.
    const named = chains.map(([chain]) => `:${chain} - [0:0]`);
    const rules = chains.flatMap(([chain, text]) =>
      rulesOf(text).map((rule) => `-A ${chain} ${rule}`),
    );
    return [`*${name}`, ...named, ...rules, 'COMMIT', ''].join('\n');
  }).join('');
}

const rulesOf = (text) =>
  text.split('\n').filter((rule) => rule !== '' && !rule.endsWith(' KUBE-CLUSTER-IPS'));
