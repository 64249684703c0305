/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets that are refused by an ICMP error from the address that they were sent to: port
 * unreachable for every protocol, packet too big, time exceeded.
 */
#ifndef FAIRLEAD_REFUSE_H
#define FAIRLEAD_REFUSE_H

#include "packet/answer/answer.h"
#include "packet/rewrite.h"

/* Sum of the quote, whose transport header ends it, with its final checksum. */
static __always_inline __u64 sum_of_quote(struct packet *p, __u64 at, __u64 size)
{
	__u32 header = header_size(p->wire.protocol);
	__u64 field = at + (p->wire.protocol == PROTOCOL_TCP ? TCP_CHECKSUM : UDP_CHECKSUM);
	__u16 rest;

	if (p->has_checksum && field <= MAX_QUOTE - sizeof(__u16) &&
	    at <= MAX_QUOTE - sizeof(struct tcphdr)) {
		*(__u16 *)&p->quote[field] = 0;
		rest = fold(header == sizeof(struct tcphdr)
				    ? bpf_csum_diff(NULL, 0, (__be32 *)&p->quote[at],
						    sizeof(struct tcphdr), 0)
				    : bpf_csum_diff(NULL, 0, (__be32 *)&p->quote[at],
						    sizeof(struct udphdr), 0));
		*(__u16 *)&p->quote[field] = half(~rest);
	}
	return bpf_csum_diff(NULL, 0, (__be32 *)p->quote, size, 0);
}

/* Type and code of an error. */
#define ICMP_PORT_UNREACHABLE	0x0303
#define ICMP_FRAGMENTATION	0x0304
#define ICMP_TIME_EXCEEDED	0x0b00
#define ICMPV6_PORT_UNREACHABLE 0x0104
#define ICMPV6_TOO_BIG		0x0200
#define ICMPV6_TIME_EXCEEDED	0x0300

struct unreachable4 {
	struct iphdr ip;
	struct icmp_header icmp;
};

struct unreachable6 {
	struct ipv6hdr ip;
	struct icmp_header icmp;
};

static __always_inline int store_unreachable4(struct __sk_buff *skb, const struct tuple *t,
					      __u32 network, __u32 size, __u64 sum, __u32 kind,
					      __u32 mtu)
{
	struct unreachable4 u = {
		.icmp = {.type = kind >> 8, .code = kind, .rest = bpf_htonl(mtu)},
	};

	u.ip = ipv4_header(t, sizeof(u.icmp) + size, IPPROTO_ICMP);
	u.icmp.checksum = ~fold(sum + bpf_csum_diff(NULL, 0, (__be32 *)&u.icmp, sizeof(u.icmp), 0));
	return bpf_skb_store_bytes(skb, network, &u, sizeof(u), 0);
}

static __always_inline int store_unreachable6(struct __sk_buff *skb, const struct tuple *t,
					      __u32 network, __u32 size, __u64 sum, __u32 kind,
					      __u32 mtu)
{
	struct unreachable6 u = {
		.icmp = {.type = kind >> 8, .code = kind, .rest = bpf_htonl(mtu)},
	};

	u.ip = ipv6_header(t, sizeof(u.icmp) + size, IPPROTO_ICMPV6);
	sum += pseudo_sum(t, sizeof(u.icmp) + size, IPPROTO_ICMPV6, FAMILY_IPV6);
	u.icmp.checksum = ~fold(sum + bpf_csum_diff(NULL, 0, (__be32 *)&u.icmp, sizeof(u.icmp), 0));
	return bpf_skb_store_bytes(skb, network, &u, sizeof(u), 0);
}

/* All of `size` bytes have been read into p->quote. Leaves room for the headers in front. */
static __always_inline bool make_room(struct __sk_buff *skb, const struct packet *p, __u32 size,
				      __u32 headers)
{
	return !bpf_skb_change_tail(skb, p->network + size, 0) &&
	       !bpf_skb_adjust_room(skb, headers, BPF_ADJ_ROOM_MAC, 0);
}

/* A chunk header and the initiate tag of an INIT. */
#define SCTP_QUOTED_CHUNK 8

/* The transport header. An association that begins is recognized by its initiate tag alone, which
 * is in the first chunk (RFC 9260, 10.). */
static __always_inline __u64 size_of_quote(struct __sk_buff *skb, const struct packet *p, __u64 at)
{
	__u64 size = at + header_size(p->wire.protocol);

	if (p->wire.protocol == PROTOCOL_SCTP && skb->len >= p->network + size + SCTP_QUOTED_CHUNK)
		size += SCTP_QUOTED_CHUNK;
	return size;
}

static __always_inline int tell(struct __sk_buff *skb, __u32 kind, __u32 mtu, enum family family)
{
	__u32 headers =
		family == FAMILY_IPV4 ? sizeof(struct unreachable4) : sizeof(struct unreachable6);
	struct packet *p = this_packet();
	struct tuple *back;
	__u64 at, size; /* 64 bits wide, so that the verifier sees that what is checked is used */
	__u64 sum;

	if (!p || !is_unicast(&p->wire.source, family))
		return unanswered(REASON_NOT_ANSWERED);
	if (!take_token())
		return unanswered(REASON_ANSWER_LIMITED);
	at = (__u64)p->transport - p->network;
	size = size_of_quote(skb, p, at);
	if (size < ICMP_HEADER_SIZE || size > MAX_QUOTE ||
	    bpf_skb_load_bytes(skb, p->network, p->quote, size))
		return unanswered(REASON_NOT_ANSWERED);
	sum = sum_of_quote(p, at, size);
	back = &p->back; /* not used otherwise for a packet of no connection */
	reverse(&p->wire, back);
	if (!make_room(skb, p, size, headers) ||
	    bpf_skb_store_bytes(skb, p->network + headers, p->quote, size, 0))
		return unanswered(REASON_NOT_ANSWERED);
	if (family == FAMILY_IPV4 ? store_unreachable4(skb, back, p->network, size, sum, kind, mtu)
				  : store_unreachable6(skb, back, p->network, size, sum, kind, mtu))
		return unanswered(REASON_NOT_ANSWERED);
	return send_back(skb, p);
}

/* Global functions take scalars. An MTU belongs to what is too big alone, which needs the same two
 * places in both families. */
__noinline int fl_tell4(struct __sk_buff *skb, __u32 kind, __u32 mtu)
{
	return tell(skb, kind, mtu, FAMILY_IPV4);
}

__noinline int fl_tell6(struct __sk_buff *skb, __u32 kind, __u32 mtu)
{
	return tell(skb, kind, mtu, FAMILY_IPV6);
}

static __always_inline int refuse(struct __sk_buff *skb, enum family family)
{
	return family == FAMILY_IPV4 ? fl_tell4(skb, ICMP_PORT_UNREACHABLE, 0)
				     : fl_tell6(skb, ICMPV6_PORT_UNREACHABLE, 0);
}

#endif
