// SPDX-License-Identifier: Apache-2.0
// Rules of nf_tables in a network namespace that redirect: `redirect`, `tproxy`, and `dnat` to loopback, native or written by
// iptables-nft, whose targets are expressions of their own. nf_tables alone is asked: what iptables-legacy has is not in it.
import { isLoopbackBytes, type Redirect, targetRedirect } from '../redirect.ts';
import { type NetlinkRequest, NLM_F, netlinkRequest } from '../request.ts';
import { attributeIn, type Span, text, viewOf } from '../wire.ts';

const NETLINK_NETFILTER = 12;
const NFTABLES = 10 << 8;
const NFT_MSG_GETRULE = 7;
const HEADER_SIZE = 4;
const ATTRIBUTE_HEADER = 4;
const NFTA_RULE = { CHAIN: 2, EXPRESSIONS: 4 } as const;
const NFTA_EXPR = { NAME: 1, DATA: 2 } as const;
const NFTA_TARGET = { NAME: 1, INFO: 3 } as const;
const NFTA_IMMEDIATE_DATA = 2;
const NFTA_DATA_VALUE = 1;
const NFTA_NAT_TYPE = 1;
const NFT_NAT_DNAT = 1;

/** Empty on a kernel without nf_tables. Throws an Error whose message is the errno's name, or as openNetlink does. */
export function nftRedirects(
  netns: number | undefined,
  ask: NetlinkRequest = netlinkRequest,
): readonly Redirect[] {
  const request = { protocol: NETLINK_NETFILTER, type: NFTABLES | NFT_MSG_GETRULE };
  const body = new Uint8Array(HEADER_SIZE);
  try {
    const answer = ask({
      ...{ ...request, flags: NLM_F.DUMP, body },
      ...(netns !== undefined && { netns }),
    });
    return answer.flatMap((rule) => redirectIn(rule.body) ?? []);
  } catch (error) {
    if (error instanceof Error && ['EINVAL', 'EOPNOTSUPP'].includes(error.message)) return [];
    throw error;
  }
}

function redirectIn(body: Uint8Array): Redirect | undefined {
  const view = viewOf(body);
  const all = { from: HEADER_SIZE, to: body.length };
  const chain = textIn(body, attributeIn(view, all, NFTA_RULE.CHAIN)) ?? '';
  let isToLoopback = false;
  for (const expression of nested(view, attributeIn(view, all, NFTA_RULE.EXPRESSIONS))) {
    const name = textIn(body, attributeIn(view, expression, NFTA_EXPR.NAME));
    const data = attributeIn(view, expression, NFTA_EXPR.DATA);
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
  const name = textIn(body, attributeIn(view, data, NFTA_TARGET.NAME)) ?? '';
  const info = attributeIn(view, data, NFTA_TARGET.INFO);
  return targetRedirect(name, info === undefined ? undefined : body.subarray(info.from, info.to));
}

function isLoopbackIn(body: Uint8Array, data: Span | undefined): boolean {
  const view = viewOf(body);
  const value = attributeIn(view, attributeIn(view, data, NFTA_IMMEDIATE_DATA), NFTA_DATA_VALUE);
  return value !== undefined && isLoopbackBytes(body.subarray(value.from, value.to));
}

function isDnat(view: DataView, data: Span | undefined): boolean {
  const type = attributeIn(view, data, NFTA_NAT_TYPE);
  return type !== undefined && view.getUint32(type.from) === NFT_NAT_DNAT;
}

const textIn = (body: Uint8Array, span: Span | undefined): string | undefined =>
  span && text(body.subarray(span.from, span.to));

function* nested(view: DataView, list: Span | undefined): Generator<Span> {
  let at = list?.from ?? 0;
  while (list !== undefined && at + ATTRIBUTE_HEADER <= list.to) {
    const length = view.getUint16(at, true);
    if (length < ATTRIBUTE_HEADER) return;
    yield { from: at + ATTRIBUTE_HEADER, to: at + length };
    at += (length + 3) & ~3;
  }
}
