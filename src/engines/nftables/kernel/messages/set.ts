// SPDX-License-Identifier: Apache-2.0
// Sets that Services have for themselves: of clients that session affinity knows, and of the chains among which a rule chooses.
import type { Family } from '../../../../model/types.ts';
import { number } from '../../../../sys/netlink/nft/expressions.ts';
import { attribute, joined, viewOf } from '../../../../sys/netlink/wire.ts';
import type { SetDeclaration } from '../../rules/types.ts';
import { secondsIn } from '../../state/sets-view.ts';

const NFTA_SET = {
  ...{ FLAGS: 3, KEY_TYPE: 4, KEY_LEN: 5, DATA_TYPE: 6, DATA_LEN: 7, DESC: 9, ID: 10 },
  ...{ TIMEOUT: 11, USERDATA: 13 },
} as const;
const DESC_SIZE = 1;
const FLAG = { ANONYMOUS: 1, CONSTANT: 2, MAP: 8, TIMEOUT: 0x10, DYNAMIC: 0x20 } as const;
/** Numbers that nft has for its types. */
const TYPE_INTEGER = 4;
const ADDRESS = { IPv4: { type: 7, size: 4 }, IPv6: { type: 8, size: 16 } } as const;
const TYPE_VERDICT = 0xffffff00;

/** In the set's userdata nft notes in which order the bytes of keys and values are. */
const orderOf = (kind: 'key' | 'data', order: 'none' | 'host' | 'network'): Uint8Array =>
  Uint8Array.of(kind === 'key' ? 0 : 1, 4, ['none', 'host', 'network'].indexOf(order), 0, 0, 0);

/** @returns undefined: nft has to write it */
export function newSet(
  { lines }: SetDeclaration,
  family: Family,
  id: number,
): readonly Uint8Array[] | undefined {
  const [, size, timeout = ''] =
    /^type ipv[46]_addr\nsize (\d+)\nflags dynamic,timeout\ntimeout (\S+)$/.exec(lines) ?? [];
  if (size === undefined) return undefined;
  const address = ADDRESS[family];
  return [
    number(NFTA_SET.FLAGS, FLAG.DYNAMIC | FLAG.TIMEOUT),
    number(NFTA_SET.KEY_TYPE, address.type),
    number(NFTA_SET.KEY_LEN, address.size),
    number(NFTA_SET.ID, id),
    attribute(NFTA_SET.DESC, number(DESC_SIZE, Number(size))),
    attribute(NFTA_SET.TIMEOUT, milliseconds(secondsIn(timeout))),
    attribute(NFTA_SET.USERDATA, orderOf('key', 'network')),
  ];
}

/** Number -> verdict. */
export const newVerdictMap = (size: number, id: number): readonly Uint8Array[] => [
  number(NFTA_SET.FLAGS, FLAG.ANONYMOUS | FLAG.CONSTANT | FLAG.MAP),
  number(NFTA_SET.KEY_TYPE, TYPE_INTEGER),
  number(NFTA_SET.KEY_LEN, 4),
  number(NFTA_SET.DATA_TYPE, TYPE_VERDICT),
  number(NFTA_SET.DATA_LEN, 0),
  number(NFTA_SET.ID, id),
  attribute(NFTA_SET.DESC, number(DESC_SIZE, size)),
  attribute(NFTA_SET.USERDATA, joined([orderOf('key', 'host'), orderOf('data', 'none')])),
];

function milliseconds(seconds: number): Uint8Array {
  const bytes = new Uint8Array(8);
  viewOf(bytes).setBigUint64(0, BigInt(seconds) * 1000n);
  return bytes;
}
