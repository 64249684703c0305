/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * IPIP on the wire: a client's packet as it was sent behind one IP header of the same family, from
 * this node to a real server (RFC 2003, RFC 2473), as IPVS sends it in tunnel mode. Nothing in it
 * is ours: any Linux unwraps it. docs/adr/0040 has the details.
 */
#ifndef FAIRLEAD_IPIP_WIRE_H
#define FAIRLEAD_IPIP_WIRE_H

#include "packet/parse.h"

static __always_inline __u8 ipip_protocol(enum family family)
{
	return family == FAMILY_IPV4 ? IPPROTO_IPIP : IPPROTO_IPV6;
}

static __always_inline __u32 ipip_overhead(enum family family)
{
	return family == FAMILY_IPV4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
}

#endif
