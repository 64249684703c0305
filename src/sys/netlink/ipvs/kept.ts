// SPDX-License-Identifier: Apache-2.0
// How long IPVS keeps clients with their real server (linux/ip_vs.h): /proc/net/ip_vs has it in jiffies, whose length no file tells.
import { type NetlinkRequest, NLM_F, netlinkRequest } from '../request.ts';
import { attribute, attributesIn, u32, viewOf } from '../wire.ts';

const NETLINK_GENERIC = 16;
const GENL_ID_CTRL = 16;
const CTRL_CMD_GETFAMILY = 3;
const CTRL_ATTR_FAMILY_ID = 1;
const CTRL_ATTR_FAMILY_NAME = 2;
const IPVS_CMD_GET_SERVICE = 4;
const IPVS_CMD_ATTR_SERVICE = 1;
const IPVS_SVC_ATTR_PROTOCOL = 2;
const IPVS_SVC_ATTR_ADDR = 3;
const IPVS_SVC_ATTR_PORT = 4;
const IPVS_SVC_ATTR_FLAGS = 7;
const IPVS_SVC_ATTR_TIMEOUT = 8;
const IP_VS_SVC_F_PERSISTENT = 1;
/** `struct genlmsghdr`: command, version, two bytes that are not used. */
const HEADER_SIZE = 4;
const header = (command: number): Uint8Array => Uint8Array.of(command, 1, 0, 0);

/** A virtual server that keeps clients. */
export interface Kept {
  /** IPPROTO_* */
  readonly protocol: number;
  /** 16 bytes, of which IPv4 has the first four. */
  readonly address: Uint8Array;
  readonly port: number;
  readonly seconds: number;
}

/** Throws the kernel's errno: ENOENT without IPVS, EPERM without CAP_NET_ADMIN. */
export function keptByIpvs(ask: NetlinkRequest = netlinkRequest): readonly Kept[] {
  const name = attribute(CTRL_ATTR_FAMILY_NAME, new TextEncoder().encode('IPVS\0'));
  const [family] = ask({
    ...{ protocol: NETLINK_GENERIC, type: GENL_ID_CTRL, flags: NLM_F.ACK },
    body: Uint8Array.of(...header(CTRL_CMD_GETFAMILY), ...name),
  });
  const id = attributesIn(family?.body ?? new Uint8Array(), HEADER_SIZE, [CTRL_ATTR_FAMILY_ID]);
  const number = id.get(CTRL_ATTR_FAMILY_ID);
  if (number === undefined) throw new Error('ENOENT');
  const servers = ask({
    ...{ protocol: NETLINK_GENERIC, flags: NLM_F.DUMP, body: header(IPVS_CMD_GET_SERVICE) },
    type: viewOf(number).getUint16(0, true),
  });
  return servers.flatMap(({ body }) => keptBy(body));
}

const WANTED = [
  ...[IPVS_SVC_ATTR_PROTOCOL, IPVS_SVC_ATTR_ADDR, IPVS_SVC_ATTR_PORT],
  ...[IPVS_SVC_ATTR_FLAGS, IPVS_SVC_ATTR_TIMEOUT],
];

function keptBy(body: Uint8Array): readonly Kept[] {
  const outer = attributesIn(body, HEADER_SIZE, [IPVS_CMD_ATTR_SERVICE]);
  const server = attributesIn(outer.get(IPVS_CMD_ATTR_SERVICE) ?? new Uint8Array(), 0, WANTED);
  const [protocol, address, port] = WANTED.slice(0, 3).map((type) => server.get(type));
  const flags = u32(server.get(IPVS_SVC_ATTR_FLAGS)) ?? 0;
  const seconds = u32(server.get(IPVS_SVC_ATTR_TIMEOUT));
  // One of a firewall mark has neither address nor port.
  if (protocol === undefined || address === undefined || port === undefined) return [];
  if ((flags & IP_VS_SVC_F_PERSISTENT) === 0 || seconds === undefined) return [];
  return [
    {
      ...{ address, seconds },
      protocol: viewOf(protocol).getUint16(0, true),
      port: viewOf(port).getUint16(0, false),
    },
  ];
}
