// SPDX-License-Identifier: Apache-2.0
// Whether there may be TCP connections that another proxy has begun on this node. Its rules, or conntrack, then know them, and
// the packet programs must not reset them.
import { readFileSync } from 'node:fs';
import { reasonOf } from '../../../../errors.ts';
import type { Logger } from '../../../../log.ts';
import { FAMILIES } from '../../../../model/types.ts';
import { readConntrack } from '../../../../sys/conntrack/conntrack-table.ts';
import type { ConntrackEntry } from '../../../../sys/conntrack/entry.ts';
import type { BpfMap } from '../../../../sys/native.ts';
import type { NetworkFollower } from '../../../../sys/netlink/network.ts';
import { formerConnections } from '../packet/settings.ts';

export interface FormerProxyParts {
  /** Rules of a proxy may be there. */
  readonly mayHaveRules: () => boolean;
  /** /proc/net/ip_vs; undefined: the kernel has no IPVS. */
  readonly ipvs?: () => string | undefined;
  readonly read?: typeof readConntrack;
}

interface Parts extends Pick<FormerProxyParts, 'mayHaveRules'> {
  readonly network: Pick<NetworkFollower, 'current'>;
  readonly log: Pick<Logger, 'info'>;
}

/** Whether TCP that the maps do not know may be of a connection that another proxy has begun. */
export async function mayHaveFormer(
  settings: BpfMap,
  { network, log, mayHaveRules }: Parts,
): Promise<boolean> {
  const former = formerConnections(settings);
  if (former === 'known') return false;
  const devices = [...network.current().links.values()].map(({ name }) => name);
  const found =
    former === 'unknown'
      ? await findFormerProxy(devices, { mayHaveRules })
      : 'another engine has served meanwhile';
  if (found === undefined) {
    log.info('no sign of an earlier proxy: TCP packets of unknown connections are reset');
  } else {
    log.info(
      { found },
      'an earlier proxy may have connections: until the node has been up for twice as long, at most a day more, TCP packets of unknown connections are left to the kernel',
    );
  }
  return found !== undefined;
}

/** Of networks that can serve Services by programs or flows of their own: conntrack does not show their connections. */
const DEVICES: ReadonlyMap<string, string> = new Map([
  ['cilium_host', 'Cilium'],
  ['bpfin.cali', 'Calico'],
  ['antrea-gw0', 'Antrea'],
  ['ovn-k8s-mp0', 'OVN-Kubernetes'],
]);

/** The sign of such a proxy. undefined: there is none. @param devices their names */
export async function findFormerProxy(
  devices: Iterable<string>,
  { mayHaveRules, ipvs = readIpvs, read = readConntrack }: FormerProxyParts,
): Promise<string | undefined> {
  if (mayHaveRules()) return 'rules of kube-proxy or of the iptables engine, or a table nat';
  if (/^(?:TCP|UDP|SCTP) /m.test(ipvs() ?? '')) return 'virtual servers of IPVS';
  for (const name of devices) {
    const network = DEVICES.get(name);
    if (network !== undefined) return `the device ${name} of ${network}`;
  }
  return findTranslated(read);
}

function readIpvs(): string | undefined {
  try {
    return readFileSync('/proc/net/ip_vs', 'utf8');
  } catch {
    return undefined;
  }
}

/** The answers come from elsewhere than where the client connected to. */
const isTranslated = (entry: ConntrackEntry): boolean =>
  entry.destination !== entry.replySource || entry.destinationPort !== entry.replySourcePort;

/** Ends the reading of a table that may be long. */
class Found extends Error {}

async function findTranslated(read: typeof readConntrack): Promise<string | undefined> {
  const wants = (protocol: string): boolean => protocol === 'TCP';
  const text = 'translated TCP connections in conntrack';
  try {
    for (const family of FAMILIES) {
      const { isWhole } = await read({ family, wants }, async (entries) => {
        if (entries.some(isTranslated)) throw new Found();
      });
      if (!isWhole) return 'a part of conntrack that could not be read';
    }
  } catch (error) {
    return error instanceof Found ? text : `conntrack, which cannot be read (${reasonOf(error)})`;
  }
  return undefined;
}
