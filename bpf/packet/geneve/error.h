/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors about packets in Geneve, from the way to another node. Only that the way is narrower
 * than its route says has a consequence: clients are told the next time. Few routers quote so much
 * that the packet inside would show who has sent it.
 */
#ifndef FAIRLEAD_GENEVE_ERROR_H
#define FAIRLEAD_GENEVE_ERROR_H

#include "packet/answer/refuse.h"
#include "packet/geneve/way.h"

/* As net.ipv4.route.min_pmtu and RFC 8200: anybody can send such an error. */
#define LEAST_MTU4 552
#define LEAST_MTU6 1280

static __always_inline __u32 told_mtu(const struct icmp_header *icmp, enum family outer)
{
	__u32 kind = icmp->type << 8 | icmp->code, mtu = bpf_ntohl(icmp->rest);

	if (outer == FAMILY_IPV6) {
		if (kind != ICMPV6_TOO_BIG)
			return 0;
		return mtu < LEAST_MTU6 ? LEAST_MTU6 : mtu;
	}
	if (kind != ICMP_FRAGMENTATION)
		return 0;
	mtu &= 0xffff;
	return mtu < LEAST_MTU4 ? LEAST_MTU4 : mtu;
}

/* An error that belongs to no flow; left, as the kernel may have something to do with it. */
__noinline int fl_geneve_error(struct __sk_buff *skb)
{
	struct packet *p = this_packet();
	struct icmp_header icmp;
	struct peer *peer;
	__u32 mtu;

	if (!p || p->quoted.protocol != PROTOCOL_UDP)
		return LEAVE;
	peer = peer_at(&p->quoted.destination);
	if (!peer || peer->port != p->quoted.destination_port ||
	    bpf_skb_load_bytes(skb, p->icmp, &icmp, sizeof(icmp)))
		return LEAVE;
	count_reason(REASON_DIRECT_ICMP);
	mtu = told_mtu(&icmp, family_of(&p->quoted.destination));
	if (!mtu)
		return LEAVE;
	set_now(p);
	peer->path_mtu_at = p->now;
	peer->path_mtu = mtu < 0xffff ? mtu : 0xffff;
	return LEAVE;
}

#endif
