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
#include "packet/flow/known.h"
#include "packet/flow/stateless.h"
#include "packet/geneve/wrap.h"
#include "packet/icmp/quoted.h"

static __always_inline bool is_from_closed_port(const struct packet *p,
						const struct icmp_header *icmp)
{
	__u32 kind = icmp->type << 8 | icmp->code;

	return is_same_address(&p->wire.source, &p->quoted.destination) &&
	       kind == (family_of(&p->wire.source) == FAMILY_IPV4 ? ICMP_PORT_UNREACHABLE
								  : ICMPV6_PORT_UNREACHABLE);
}

/* p->quoted is a packet that this node may have sent in Geneve from the port. */
static __always_inline bool has_left_by(struct packet *p, __u16 port, enum family inner)
{
	if (outer_port(p, &p->quoted, inner) != port)
		return false;
	if (find_client(&p->quoted, &p->env, &p->other, &p->other_slot, inner))
		return p->other.conn.life.flags.direct_return;
	p->back = p->quoted;
	return inner == FAMILY_IPV4 ? fl_is_stateless4() : fl_is_stateless6();
}

__noinline int fl_has_left4(__u32 port)
{
	struct packet *p = this_packet();

	return p ? has_left_by(p, port, FAMILY_IPV4) : false;
}

__noinline int fl_has_left6(__u32 port)
{
	struct packet *p = this_packet();

	return p ? has_left_by(p, port, FAMILY_IPV6) : false;
}

/*
 * What is quoted shows the packet inside, and that is of a connection that goes out so, from the
 * port that the secret gives it: who has not seen it cannot write it. Takes p->quoted.
 */
static __always_inline bool is_about_conn(struct __sk_buff *skb, struct packet *p)
{
	__u32 at = p->transport + sizeof(struct udphdr);
	__u16 port = p->quoted.source_port;
	struct geneve geneve;

	if (bpf_skb_load_bytes(skb, at, &geneve, sizeof(geneve)) ||
	    bpf_ntohl(geneve.vni) >> 8 != GENEVE_VNI)
		return false;
	p->quoted_network = at + sizeof(geneve) + geneve.words % 64 * 4;
	if (geneve.protocol == bpf_htons(ETH_P_IP))
		return fl_read_quoted4(skb) && fl_has_left4(port);
	return fl_read_quoted6(skb) && fl_has_left6(port);
}

/* Anybody can send such an error: few routers quote so much that is_about_conn() could tell. */
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

/* An error of no connection; left, as the kernel may have something to do with it. */
__noinline int fl_geneve_error(struct __sk_buff *skb)
{
	struct packet *p = this_packet();
	struct icmp_header icmp;
	struct address own;
	struct peer *peer;
	__u32 mtu;

	if (!p || p->quoted.protocol != PROTOCOL_UDP || p->quoted.source_port < FIRST_SOURCE_PORT ||
	    !own_address(family_of(&p->quoted.source), &own) ||
	    !is_same_address(&p->quoted.source, &own))
		return LEAVE;
	peer = peer_at(&p->quoted.destination);
	if (!peer || port_of(peer) != p->quoted.destination_port ||
	    bpf_skb_load_bytes(skb, p->icmp, &icmp, sizeof(icmp)))
		return LEAVE;
	count_reason(REASON_DIRECT_ICMP);
	mtu = is_from_closed_port(p, &icmp) ? PORT_IS_CLOSED
					    : told_mtu(&icmp, family_of(&p->quoted.destination));
	if (!mtu || (mtu == PORT_IS_CLOSED && !is_about_conn(skb, p)))
		return LEAVE;
	set_now(p);
	peer->path_mtu_at = p->now;
	peer->path_mtu = mtu < 0xffff ? mtu : 0xffff;
	return LEAVE;
}

#endif
