// SPDX-License-Identifier: Apache-2.0
// Which devices forward by XDP, and why: those by which clients of other machines come in, if --xdp says so. The programs of
// tc are complete, so a device without XDP lacks nothing but speed. Pure.
import { matchesGlob } from '../../../lib/glob.ts';
import type { Network } from '../../../sys/netlink/network.ts';
import type { Link } from '../../../sys/netlink/records.ts';
import { type DeviceDecision, hasPorts } from '../devices/policy.ts';

export type XdpMode = 'auto' | 'native' | 'off';

export interface XdpDecision {
  /**
   * `both`: its frames are translated by XDP, and other devices' may leave by it; `send`: only the latter; `above`: as `both`, by the device
   * below it.
   */
  readonly use: 'none' | 'both' | 'send' | 'above';
  /** Why XDP may be used, or why not: one clause. */
  readonly reason: string;
}

interface Asked {
  readonly mode: XdpMode;
  /** The entry names devices. */
  readonly isNamed: boolean;
  readonly reason: string;
}

/** The last entry of --xdp that names the device, else the one for all. */
export function askedFor(name: string, entries: readonly string[]): Asked {
  const named = entries
    .filter((entry) => entry.includes('='))
    .findLast((entry) => matchesGlob(entry.slice(0, entry.indexOf('=')), name));
  const entry = named ?? entries.find((one) => !one.includes('=')) ?? 'off';
  const mode = entry.slice(entry.indexOf('=') + 1) as XdpMode;
  return { mode, isNamed: named !== undefined, reason: `--xdp has ${entry}` };
}

export function decideXdp(
  { link, role, isL3, isWanted }: DeviceDecision,
  network: Network,
  entries: readonly string[],
): XdpDecision {
  const asked = askedFor(link.name, entries);
  const none = (reason: string): XdpDecision => ({ use: 'none', reason });
  if (!isWanted) return none('it has no packet programs');
  if (asked.mode === 'off') return none(asked.reason);
  if (isL3) return none('its packets have no Ethernet header');
  if (role === 'pod') {
    return isChosen(asked) ? { use: 'send', reason: asked.reason } : none(POD);
  }
  const never = unsuitable(link, role) ?? ofMaster(link, network);
  if (never !== undefined) return none(never);
  const kind = virtualKind(link, network);
  if (asked.mode === 'auto' && kind !== undefined) return none(virtual(kind));
  if (hasVlans(link, network) && !isChosen(asked)) return none(VLANS);
  return { use: 'both', reason: asked.reason };
}

/** --devices may name a port. Its packets come in by its master, as far as routes know, and go on by that. */
function ofMaster({ master }: Link, { links }: Network): string | undefined {
  const { kind = '', name = '' } = (master !== undefined && links.get(master)) || {};
  return hasPorts(kind) ? `it is a port of ${name}, which forwards` : undefined;
}

/** Of a VLAN, by what is decided of the device below it. --xdp is asked about that one, and may leave out VLANs by name. */
export function decideVlan(
  { link, isWanted }: DeviceDecision,
  below: { readonly name: string; readonly decision: XdpDecision } | undefined,
  entries: readonly string[],
): XdpDecision {
  const none = (reason: string): XdpDecision => ({ use: 'none', reason });
  const asked = askedFor(link.name, entries);
  if (!isWanted) return none('it has no packet programs');
  if (asked.isNamed && asked.mode === 'off') return none(asked.reason);
  if (below === undefined) return none('the device below it is in another network namespace');
  const { name, decision } = below;
  if (decision.use !== 'both') return none(`its frames pass ${name}, where ${decision.reason}`);
  if (link.tag === undefined) return none('it gives priorities to its frames, which XDP does not');
  return { use: 'above', reason: `its frames pass ${name}` };
}

/** A bond of cards is as good as a card. */
function virtualKind({ ifindex, kind }: Link, { links }: Network): string | undefined {
  if (kind !== 'bond') return kind;
  const ports = [...links.values()].filter(({ master }) => master === ifindex);
  return ports.find((port) => port.kind !== undefined)?.kind;
}

/** Named with mode native: then the operator answers for what is usually a reason against XDP. */
const isChosen = ({ mode, isNamed }: Asked): boolean => mode === 'native' && isNamed;

const hasVlans = ({ ifindex }: Link, { links }: Network): boolean =>
  [...links.values()].some(({ kind, below }) => kind === 'vlan' && below === ifindex);

const VLANS =
  'VLANs are on it, and a driver may take their tags off before XDP: `ethtool -K NAME rxvlan off`, then --xdp NAME=native';

/** What is sent to it by XDP passes none of the filters between the node and the pod. */
const POD =
  'it leads to a pod: only --xdp NAME=native sends to it, past the filters of its packets';

/** Frames without their checksums are left to tc, and where XDP is, its peer no longer sends large ones. */
const virtual = (kind: string): string =>
  `it is a virtual device (${kind}), whose senders may leave checksums and segments to others: --xdp NAME=native if they do not`;

function unsuitable({ kind }: Link, role: DeviceDecision['role']): string | undefined {
  if (role === 'bridge' || role === 'tunnel') return `a ${role} has no driver of its own`;
  return kind === 'vlan'
    ? 'a VLAN has no driver of its own: its frames pass the device below'
    : undefined;
}
