// SPDX-License-Identifier: Apache-2.0
// Rules of nf_tables in a network namespace that redirect: `redirect`, `tproxy`, and `dnat` to loopback, native or written by
// iptables-nft, whose targets are expressions of their own. nf_tables alone is asked: what iptables-legacy has is not in it.
import { isLoopbackBytes, type Redirect, targetRedirect } from '../redirect.ts';
import type { NetlinkRequest } from '../request.ts';
import { attributeIn, type Span, viewOf } from '../wire.ts';
import { dumpOrNone } from './dump.ts';
import { bytesOf, NFTA_DATA, textAt, textOf, within } from './map-elements.ts';
import {
  expressionsIn,
  NFT_MSG_GETRULE,
  NFT_NAT_DNAT,
  NFTA_IMMEDIATE,
  NFTA_NAT,
  NFTA_RULE,
  NFTA_TARGET,
} from './rules.ts';

/** Empty on a kernel without nf_tables. Throws an Error whose message is the errno's name, or as openNetlink does. */
export function nftRedirects(netns: number | undefined, ask?: NetlinkRequest): readonly Redirect[] {
  const rules = dumpOrNone({ message: NFT_MSG_GETRULE, netns }, ask);
  return rules.flatMap((body) => redirectIn(body) ?? []);
}

function redirectIn(body: Uint8Array): Redirect | undefined {
  const view = viewOf(body);
  const chain = textAt(body, NFTA_RULE.CHAIN) ?? '';
  let isToLoopback = false;
  for (const { name, data } of expressionsIn(body)) {
    if (name === 'redir') return { kind: 'REDIRECT', chain };
    if (name === 'tproxy') return { kind: 'TPROXY', chain };
    if (name === 'immediate') isToLoopback ||= isLoopbackIn(body, data);
    if (name === 'nat' && isToLoopback && isDnat(view, data)) return { kind: 'DNAT', chain };
    const kind = name === 'target' ? targetIn(body, data) : undefined;
    if (kind !== undefined) return { kind, chain };
  }
  return undefined;
}

function targetIn(body: Uint8Array, data: Span | undefined): Redirect['kind'] | undefined {
  const view = viewOf(body);
  const name = textOf(body, attributeIn(view, data, NFTA_TARGET.NAME)) ?? '';
  const info = attributeIn(view, data, NFTA_TARGET.INFO);
  return targetRedirect(name, info && bytesOf(body, info));
}

function isLoopbackIn(body: Uint8Array, data: Span | undefined): boolean {
  const value = within(viewOf(body), data, NFTA_IMMEDIATE.DATA, NFTA_DATA.VALUE);
  return value !== undefined && isLoopbackBytes(bytesOf(body, value));
}

function isDnat(view: DataView, data: Span | undefined): boolean {
  const type = attributeIn(view, data, NFTA_NAT.TYPE);
  return type !== undefined && view.getUint32(type.from) === NFT_NAT_DNAT;
}
