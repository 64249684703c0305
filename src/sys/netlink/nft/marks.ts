// SPDX-License-Identifier: Apache-2.0
// Rules of nf_tables that write the mark of packets or connections, in this process's network namespace: the targets MARK and CONNMARK of
// iptables-nft (linux/netfilter/xt_mark.h, xt_connmark.h), and nft's own `meta mark set` and `ct mark set`.

import { attributeIn, type Span, u32, viewOf } from '../wire.ts';
import { dump, FAMILIES } from './dump.ts';
import { bytesOf, NFTA_DATA, named, textAt, textOf, within } from './map-elements.ts';
import { expressionsIn, NFT_MSG_GETRULE, NFTA_IMMEDIATE, NFTA_RULE, NFTA_TARGET } from './rules.ts';

export interface NftMark {
  /** As nft names it: `ip`, `ip6`, `inet`. */
  readonly family: string;
  readonly table: string;
  readonly chain: string;
  readonly target: string;
  readonly value: number;
  readonly mask: number;
  readonly isOfPackets: boolean;
}

const NFT_MSG_GETTABLE = 1;
const NFTA_TABLE_NAME = 1;
const NFTA_META = { KEY: 2, SREG: 3 } as const;
const NFTA_CT = { KEY: 2, SREG: 4 } as const;
const NFTA_BITWISE_XOR = 5;
/** NFT_META_MARK and NFT_CT_MARK. */
const MARK_KEY = 3;
/** The mode of CONNMARK that copies the mark of the connection to the packet. */
const RESTORE = 2;
const ALL = 0xffffffff;
/** @param isAsked tables whose rules are read. Throws the kernel's errno. */
export function nftMarks(isAsked: (family: string, table: string) => boolean): readonly NftMark[] {
  const tables = dump({ message: NFT_MSG_GETTABLE }).map((body) => ({
    number: body[0] ?? 0,
    family: FAMILIES[body[0] ?? 0] ?? '',
    table: textAt(body, NFTA_TABLE_NAME) ?? '',
  }));
  return tables
    .filter(({ family, table }) => isAsked(family, table))
    .flatMap(({ number, family, table }) =>
      dump({
        ...{ message: NFT_MSG_GETRULE, family: number },
        attributes: [named(NFTA_RULE.TABLE, table)],
      })
        // Before Linux 4.18 the rules of all tables are listed.
        .filter((body) => textAt(body, NFTA_RULE.TABLE) === table)
        .flatMap((body) =>
          marksIn(body).map((mark) => ({
            ...{ family, table, chain: textAt(body, NFTA_RULE.CHAIN) ?? '' },
            ...mark,
          })),
        ),
    );
}

type Written = Pick<NftMark, 'target' | 'value' | 'mask' | 'isOfPackets'>;

function marksIn(body: Uint8Array): readonly Written[] {
  const view = viewOf(body);
  const marks: Written[] = [];
  let value = 0;
  for (const { name, data } of expressionsIn(body)) {
    const number = (...path: readonly number[]): number | undefined => {
      const span = within(view, data, ...path);
      return span && u32(bytesOf(body, span));
    };
    value = number(...(VALUE_AT[name ?? ''] ?? [0])) ?? value;
    const mark = name === 'target' ? ofTarget(body, view, data) : ofExpression(view, name, data);
    if (mark !== undefined) marks.push({ value, ...mark });
  }
  return marks;
}

/** Where an expression has the value that a later one writes. */
const VALUE_AT: Readonly<Record<string, readonly number[]>> = {
  immediate: [NFTA_IMMEDIATE.DATA, NFTA_DATA.VALUE],
  bitwise: [NFTA_BITWISE_XOR, NFTA_DATA.VALUE],
};

type Mark = Omit<Written, 'value'> & Partial<Pick<Written, 'value'>>;

function ofTarget(body: Uint8Array, view: DataView, data: Span | undefined): Mark | undefined {
  const name = textOf(body, attributeIn(view, data, NFTA_TARGET.NAME));
  const span = attributeIn(view, data, NFTA_TARGET.INFO);
  const info = span && bytesOf(body, span);
  const value = u32(info) ?? 0;
  const mask = u32(info, 4) ?? ALL;
  if (name === 'MARK') return { target: 'MARK', value, mask, isOfPackets: true };
  if (name !== 'CONNMARK') return undefined;
  const revision = attributeIn(view, data, NFTA_TARGET.REVISION);
  // Revision 2 has two bytes more, for a shift.
  const mode = info?.[revision !== undefined && view.getUint32(revision.from) >= 2 ? 14 : 12];
  if (mode !== RESTORE) return { target: 'CONNMARK', value, mask, isOfPackets: false };
  return { target: 'CONNMARK restore', value: 0, mask: u32(info, 8) ?? ALL, isOfPackets: true };
}

function ofExpression(
  view: DataView,
  name: string | undefined,
  data: Span | undefined,
): Mark | undefined {
  const at = name === 'meta' ? NFTA_META : name === 'ct' ? NFTA_CT : undefined;
  if (at === undefined || attributeIn(view, data, at.SREG) === undefined) return undefined;
  const key = attributeIn(view, data, at.KEY);
  // Of nf_tables, numbers are in network order.
  if (key === undefined || view.getUint32(key.from) !== MARK_KEY) return undefined;
  return { target: `${name} mark`, mask: ALL, isOfPackets: name === 'meta' };
}
