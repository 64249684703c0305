/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors about packets in Geneve, from the way to another node. Two have a consequence: that
 * the way is narrower than its route says, which clients are told the next time, and that the node
 * has nobody at its port, which gets SNAT then. Few routers quote so much that the packet inside
 * would show who has sent it.
 */
#ifndef FAIRLEAD_GENEVE_ERROR_H
#define FAIRLEAD_GENEVE_ERROR_H

#include "packet/answer/refuse.h"
#include "packet/geneve/way.h"

static __always_inline bool is_from_closed_port(const struct packet *p,
						const struct icmp_header *icmp)
{
	__u32 kind = icmp->type << 8 | icmp->code;

	return is_same_address(&p->wire.source, &p->quoted.destination) &&
	       kind == (family_of(&p->wire.source) == FAMILY_IPV4 ? ICMP_PORT_UNREACHABLE
								  : ICMPV6_PORT_UNREACHABLE);
}

/* Anybody can send such an error. */
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
	if (!peer || port_of(peer) != p->quoted.destination_port ||
	    bpf_skb_load_bytes(skb, p->icmp, &icmp, sizeof(icmp)))
		return LEAVE;
	count_reason(REASON_DIRECT_ICMP);
	mtu = is_from_closed_port(p, &icmp) ? PORT_IS_CLOSED
					    : told_mtu(&icmp, family_of(&p->quoted.destination));
	if (!mtu)
		return LEAVE;
	set_now(p);
	peer->path_mtu_at = p->now;
	peer->path_mtu = mtu < 0xffff ? mtu : 0xffff;
	return LEAVE;
}

#endif
