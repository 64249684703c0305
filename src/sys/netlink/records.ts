// SPDX-License-Identifier: Apache-2.0
// Network devices and their addresses as rtnetlink describes them (rtnetlink(7), linux/if_link.h,
// linux/if_addr.h): one record for each message. Pure.
import { addressText } from '../../lib/address-bytes.ts';
import { attributesIn, type Message, text, u32 } from './wire.ts';

export const RTM = { NEWLINK: 16, DELLINK: 17, GETLINK: 18, NEWADDR: 20, DELADDR: 21, GETADDR: 22 };

/** A network device. */
export interface Link {
  readonly ifindex: number;
  readonly name: string;
  /** ARPHRD_*: 1 is Ethernet. */
  readonly type: number;
  readonly isUp: boolean;
  readonly isLoopback: boolean;
  /** `veth`, `bridge`, `vxlan`, …; undefined for hardware. */
  readonly kind: string | undefined;
  /** The bridge, bond or the like that it is a port of, by ifindex. */
  readonly master: number | undefined;
  /** Its peer (veth) or the device below it (vlan, macvlan) is in another network namespace. */
  readonly isPeerElsewhere: boolean;
  /** Its Ethernet address, as `02:00:00:00:00:01`; undefined: it has none. */
  readonly mac: string | undefined;
  /** The device below it (vlan, macvlan), or its peer (veth), by ifindex in that one's namespace. */
  readonly below: number | undefined;
  readonly mtu: number;
  /**
   * Of a VLAN: the tag of frames as it is in them, 0x81000007 for VLAN 7. undefined: it is none, or frames get priorities that depend on more than
   * their VLAN.
   */
  readonly tag: number | undefined;
}

/** An address of a device, canonical. */
export interface LinkAddress {
  readonly ifindex: number;
  readonly family: 'IPv4' | 'IPv6';
  readonly address: string;
  readonly prefixLength: number;
  /** Not of the scopes host, link and nowhere. */
  readonly isGlobal: boolean;
  readonly isDeprecated: boolean;
  /** IPv6: duplicate address detection has not finished, or has found another owner. */
  readonly isTentative: boolean;
  /** IPv6: made for privacy, and replaced after some time. IPv4 has the same flag for addresses after the first of a subnet. */
  readonly isTemporary: boolean;
}

const IFINFO_SIZE = 16;
const IFADDR_SIZE = 8;
const AF_UNSPEC = 0;
const AF_INET = 2;
const AF_INET6 = 10;
const IFF = { UP: 0x1, LOOPBACK: 0x8 };
const IFLA = {
  ADDRESS: 1,
  IFNAME: 3,
  MTU: 4,
  LINK: 5,
  MASTER: 10,
  WIRELESS: 11,
  LINKINFO: 18,
  LINK_NETNSID: 37,
};
const IFLA_WANTED = Object.values(IFLA);
const IFLA_INFO = { KIND: 1, DATA: 2 };
const IFLA_VLAN = { ID: 1, EGRESS_QOS: 3, PROTOCOL: 5 };
const IFLA_VLAN_WANTED = Object.values(IFLA_VLAN);
const ETH_P_8021Q = 0x8100;
const IFA = { ADDRESS: 1, LOCAL: 2, FLAGS: 8 };
const IFA_WANTED = Object.values(IFA);
const IFA_F = { TEMPORARY: 0x01, DADFAILED: 0x08, DEPRECATED: 0x20, TENTATIVE: 0x40 };
/** RT_SCOPE_LINK; wider scopes have lower numbers. */
const SCOPE_LINK = 253;
const NOTHING = new Uint8Array();

/**
 * undefined: not about the device itself. Bridges (family AF_BRIDGE) announce with the same message types that
 * a port was added or left, and wireless events have no other attributes.
 */
export function linkOf({ body }: Message): Link | undefined {
  const ifindex = u32(body, 4);
  const flags = u32(body, 8);
  if (body[0] !== AF_UNSPEC || ifindex === undefined || flags === undefined) return undefined;
  const attributes = attributesIn(body, IFINFO_SIZE, IFLA_WANTED);
  const name = text(attributes.get(IFLA.IFNAME));
  if (name === undefined || attributes.has(IFLA.WIRELESS)) return undefined;
  const linkInfo = attributesIn(
    attributes.get(IFLA.LINKINFO) ?? NOTHING,
    0,
    Object.values(IFLA_INFO),
  );
  const kind = text(linkInfo.get(IFLA_INFO.KIND));
  return {
    ifindex,
    name,
    type: (body[2] ?? 0) | ((body[3] ?? 0) << 8),
    isUp: (flags & IFF.UP) !== 0,
    isLoopback: (flags & IFF.LOOPBACK) !== 0,
    kind,
    master: u32(attributes.get(IFLA.MASTER)),
    isPeerElsewhere: attributes.has(IFLA.LINK_NETNSID),
    mac: macText(attributes.get(IFLA.ADDRESS)),
    below: u32(attributes.get(IFLA.LINK)),
    mtu: u32(attributes.get(IFLA.MTU)) ?? 0,
    tag: kind === 'vlan' ? tagOf(linkInfo.get(IFLA_INFO.DATA) ?? NOTHING) : undefined,
  };
}

function tagOf(data: Uint8Array): number | undefined {
  const attributes = attributesIn(data, 0, IFLA_VLAN_WANTED);
  const id = attributes.get(IFLA_VLAN.ID);
  if (id === undefined || attributes.has(IFLA_VLAN.EGRESS_QOS)) return undefined;
  const [high = ETH_P_8021Q >> 8, low = ETH_P_8021Q & 0xff] =
    attributes.get(IFLA_VLAN.PROTOCOL) ?? [];
  return ((high << 24) | (low << 16) | ((id[1] ?? 0) << 8) | (id[0] ?? 0)) >>> 0;
}

/** Tunnels have addresses of other lengths there. */
const macText = (bytes: Uint8Array | undefined): string | undefined =>
  bytes?.length === 6
    ? Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(':')
    : undefined;

/** undefined: of another family. */
export function addressOf({ body }: Message): LinkAddress | undefined {
  const family = body[0] === AF_INET ? 'IPv4' : body[0] === AF_INET6 ? 'IPv6' : undefined;
  const ifindex = u32(body, 4);
  const attributes = attributesIn(body, IFADDR_SIZE, IFA_WANTED);
  // On a point-to-point device ADDRESS is the peer's.
  const bytes = attributes.get(IFA.LOCAL) ?? attributes.get(IFA.ADDRESS);
  const size = family === 'IPv4' ? 4 : 16;
  if (family === undefined || ifindex === undefined || bytes?.length !== size) return undefined;
  const flags = u32(attributes.get(IFA.FLAGS)) ?? body[2] ?? 0;
  return {
    ifindex,
    family,
    address: addressText(bytes),
    prefixLength: body[1] ?? 0,
    isGlobal: (body[3] ?? 0) < SCOPE_LINK,
    isDeprecated: (flags & IFA_F.DEPRECATED) !== 0,
    isTentative: (flags & (IFA_F.TENTATIVE | IFA_F.DADFAILED)) !== 0,
    isTemporary: (flags & IFA_F.TEMPORARY) !== 0,
  };
}
