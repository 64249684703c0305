/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors about packets in IPIP, from the way to a real server. They need not quote more than
 * the IP header that this node has made, so nobody can be told; but that the way is narrower than
 * its route says is remembered, as for Geneve, of servers that this node has sent to.
 */
#ifndef FAIRLEAD_IPIP_ERROR_H
#define FAIRLEAD_IPIP_ERROR_H

#include "packet/geneve/error.h"

/* p->quoted.protocol is none of a connection's. */
static __always_inline bool is_about_ipip(const struct packet *p, enum family family)
{
	return p->quoted.protocol == ipip_protocol(family);
}

/* Left, as the kernel may have a tunnel of its own. */
__noinline int fl_ipip_error(struct __sk_buff *skb)
{
	struct packet *p = this_packet();
	struct path_mtu *path;
	struct icmp_header icmp;
	struct address own;
	__u32 mtu;

	if (!p || !own_address(family_of(&p->quoted.source), &own) ||
	    !is_same_address(&p->quoted.source, &own) ||
	    !is_same_address(&p->wire.destination, &own) ||
	    bpf_skb_load_bytes(skb, p->icmp, &icmp, sizeof(icmp)))
		return LEAVE;
	count_reason(REASON_DIRECT_ICMP);
	mtu = told_mtu(&icmp, family_of(&own));
	path = bpf_map_lookup_elem(&fl_path_mtu, &p->quoted.destination);
	if (!mtu || !path)
		return LEAVE;
	set_now(p);
	path->told_at = p->now;
	path->mtu = mtu < 0xffff ? mtu : 0xffff;
	return LEAVE;
}

#endif
