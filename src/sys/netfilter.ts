// SPDX-License-Identifier: Apache-2.0
// nfnetlink requests of this process's network namespace: entries of conntrack, objects of nfacct, tables and chains.
import { readFileSync } from 'node:fs';
import { reasonOf } from '../errors.ts';
import { type NetlinkSocket, openNetlink } from './native.ts';
import { askOn, NLM_F, netlinkRequest } from './netlink/request.ts';
import { attribute, attributeIn, joined, viewOf } from './netlink/wire.ts';

const NETLINK_NETFILTER = 12;
/** A subsystem's number is the upper byte of a message's type. */
const CTNETLINK = 1 << 8;
const NFACCT = 7 << 8;
const IPCTNL_MSG_CT_GET = 1;
const NFNL_MSG_ACCT_NEW = 0;
const NFACCT_NAME = 1;
const NFTABLES = 10 << 8;
const NFT_MSG_GETTABLE = 1;
const NFT_MSG_GETCHAIN = 4;
const NFT_MSG_GETGEN = 16;
const NFTA_GEN_ID = 1;
const NFTA_TABLE_NAME = 1;
const NFTA_CHAIN_TABLE = 1;
const NFTA_CHAIN_NAME = 3;
const NFTA_CHAIN_POLICY = 5;
const NF_DROP = 0;
const AF_INET = 2;
const AF_INET6 = 10;
const NFPROTO_INET = 1;

/** `struct nfgenmsg`. */
const HEADER_SIZE = 4;
const header = (family: number): Uint8Array => Uint8Array.of(family, 0, 0, 0);
const nameAttribute = (type: number, name: string): Uint8Array =>
  attribute(type, new TextEncoder().encode(`${name}\0`));

/** Connections of IPv4 that conntrack has. Throws the kernel's errno. */
export const countTracked = (): number =>
  netlinkRequest({
    protocol: NETLINK_NETFILTER,
    type: CTNETLINK | IPCTNL_MSG_CT_GET,
    flags: NLM_F.DUMP,
    body: header(AF_INET),
  }).length;

export function addAccount(name: string): void {
  netlinkRequest({
    protocol: NETLINK_NETFILTER,
    type: NFACCT | NFNL_MSG_ACCT_NEW,
    flags: NLM_F.ACK | NLM_F.CREATE | NLM_F.EXCL,
    body: joined([header(0), nameAttribute(NFACCT_NAME, name)]),
  });
}

type Family = 'IPv4' | 'IPv6';
type TableFamily = Family | 'inet';

const NUMBERS = { IPv4: AF_INET, IPv6: AF_INET6, inet: NFPROTO_INET } as const;

/** A chain of nf_tables, as iptables-nft writes it. */
export const mayHaveChain = (family: Family, table: string, chain: string): boolean =>
  mayHave(family, NFT_MSG_GETCHAIN, [
    nameAttribute(NFTA_CHAIN_TABLE, table),
    nameAttribute(NFTA_CHAIN_NAME, chain),
  ]);

/** Whether a base chain of nf_tables drops what no rule decides, as `iptables-nft -P FORWARD DROP` has it. */
export function isDropping(family: Family, table: string, chain: string): boolean {
  try {
    const [body = new Uint8Array()] = askTables(family, NFT_MSG_GETCHAIN, [
      nameAttribute(NFTA_CHAIN_TABLE, table),
      nameAttribute(NFTA_CHAIN_NAME, chain),
    ]).map((answer) => answer.body);
    const policy = attributeIn(
      viewOf(body),
      { from: HEADER_SIZE, to: body.length },
      NFTA_CHAIN_POLICY,
    );
    return policy !== undefined && viewOf(body).getUint32(policy.from) === NF_DROP;
  } catch {
    return false;
  }
}

/** A table of nf_tables; `inet` has packets of both families. */
export const mayHaveTable = (family: TableFamily, table: string): boolean =>
  mayHave(family, NFT_MSG_GETTABLE, [nameAttribute(NFTA_TABLE_NAME, table)]);

/** True also if the kernel refuses to tell: only a program that has the rights can find out then. */
function mayHave(family: TableFamily, message: number, names: readonly Uint8Array[]): boolean {
  try {
    askTables(family, message, names);
    return true;
  } catch (error) {
    // EINVAL: the kernel has no nf_tables.
    return !['ENOENT', 'EINVAL'].includes(reasonOf(error));
  }
}

const askTables = (
  family: TableFamily,
  message: number,
  names: readonly Uint8Array[],
): ReturnType<typeof netlinkRequest> =>
  netlinkRequest({
    protocol: NETLINK_NETFILTER,
    type: NFTABLES | message,
    flags: 0,
    body: joined([header(NUMBERS[family]), ...names]),
  });

/** Grows with every change of any table of nf_tables in this network namespace; undefined: the kernel does not tell. */
export function rulesGeneration(): number | undefined {
  const reader = createGenerationReader();
  try {
    return reader.read();
  } finally {
    reader.close();
  }
}

export interface GenerationReader {
  /** As rulesGeneration. */
  read(): number | undefined;
  close(): void;
}

/**
 * Keeps its socket: whoever closes one waits until the kernel has freed what the last transaction has removed, 10 to 20 ms.
 */
export function createGenerationReader(): GenerationReader {
  let socket: NetlinkSocket | undefined;
  const close = (): void => {
    socket?.close();
    socket = undefined;
  };
  return {
    read() {
      try {
        socket ??= openNetlink({ protocol: NETLINK_NETFILTER });
        return generationOn(socket);
      } catch {
        close();
        return undefined;
      }
    },
    close,
  };
}

function generationOn(socket: NetlinkSocket): number | undefined {
  const asked = { type: NFTABLES | NFT_MSG_GETGEN, flags: 0, body: header(0) };
  const [body = new Uint8Array()] = askOn(socket, asked).map((answer) => answer.body);
  const id = attributeIn(viewOf(body), { from: HEADER_SIZE, to: body.length }, NFTA_GEN_ID);
  return id === undefined ? undefined : viewOf(body).getUint32(id.from);
}

const LEGACY_TABLES: Readonly<Record<Family, string>> = {
  IPv4: '/proc/net/ip_tables_names',
  IPv6: '/proc/net/ip6_tables_names',
};

/** Whether a table of iptables-legacy is in use: one that is not is not loaded either. */
export function hasLegacyTable(family: Family, table: string): boolean {
  try {
    return readFileSync(LEGACY_TABLES[family], 'utf8').split('\n').includes(table);
  } catch {
    return false;
  }
}

/** nf_conntrack_tcp_be_liberal: only resets outside the window are INVALID. As kube-proxy reads it, at start. */
export function isTcpLiberal(): boolean {
  try {
    const text = readFileSync('/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal', 'utf8');
    return text.trim() !== '0';
  } catch {
    return false;
  }
}
