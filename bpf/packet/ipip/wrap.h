/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Puts a request into IPIP and sends it to p->way, a real server, as wrap.h of Geneve does. */
#ifndef FAIRLEAD_IPIP_WRAP_H
#define FAIRLEAD_IPIP_WRAP_H

#include "packet/geneve/wrap.h"

static __always_inline long store_ipip4(struct __sk_buff *skb, const struct packet *p, __u32 length)
{
	struct iphdr ip = {
		.version = 4,
		.ihl = sizeof(ip) / 4,
		.tot_len = length_field(length),
		.frag_off = bpf_htons(IPV4_DONT_FRAGMENT),
		.ttl = OUTER_TTL,
		.protocol = IPPROTO_IPIP,
		.saddr = p->way.source.word[3],
		.daddr = p->way.node.word[3],
	};

	ip.check = ~fold(bpf_csum_diff(NULL, 0, (__be32 *)&ip, sizeof(ip), 0));
	return bpf_skb_store_bytes(skb, p->network, &ip, sizeof(ip), 0);
}

static __always_inline long store_ipip6(struct __sk_buff *skb, const struct packet *p, __u32 length)
{
	struct ipv6hdr ip = {
		.version = 6,
		.payload_len = length_field(length - sizeof(ip)),
		.nexthdr = IPPROTO_IPV6,
		.hop_limit = OUTER_TTL,
	};

	__builtin_memcpy(&ip.saddr, &p->way.source, sizeof(ip.saddr));
	__builtin_memcpy(&ip.daddr, &p->way.node, sizeof(ip.daddr));
	return bpf_skb_store_bytes(skb, p->network, &ip, sizeof(ip), 0);
}

static __always_inline int wrap_ipip(struct __sk_buff *skb, struct packet *p, enum family family)
{
	__u32 overhead = ipip_overhead(family), length = p->length + overhead;
	long error;

	if (spend_hop(skb, p, family) || make_outer_room(skb, p, overhead, family, 0))
		return unanswered(REASON_DIRECT_NOT_WRAPPED);
	error = family == FAMILY_IPV4 ? store_ipip4(skb, p, length) : store_ipip6(skb, p, length);
	return error ? unanswered(REASON_DIRECT_NOT_WRAPPED) : send_by(&p->way.fib);
}

__noinline int fl_wrap_ipip4(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? wrap_ipip(skb, p, FAMILY_IPV4) : TC_ACT_SHOT;
}

__noinline int fl_wrap_ipip6(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? wrap_ipip(skb, p, FAMILY_IPV6) : TC_ACT_SHOT;
}

#endif
