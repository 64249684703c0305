/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The MSS that a backend tells a client whose packets come in Geneve: full segments must fit the
 * way between the nodes. What the backend sends goes to the client as it is, so the MSS of the
 * client's SYN stays.
 */
#ifndef FAIRLEAD_GENEVE_CLAMP_H
#define FAIRLEAD_GENEVE_CLAMP_H

#include "packet/geneve/way.h"
#include "packet/hook.h"
#include "packet/rewrite.h"

#define TCP_OPTION_END	0
#define TCP_OPTION_NONE 1
#define TCP_OPTION_MSS	2
#define TCP_MSS_SIZE	4
/* It is the first one of those that any station sends. */
#define TCP_OPTIONS 5

/* Nodes that have both families may use either. */
static __always_inline __u16 greatest_mss(const struct packet *p)
{
	struct runtime_flags *flags = runtime_flags();
	__u32 mtu = flags && flags->direct_mtu ? flags->direct_mtu : DEFAULT_MTU;
	enum family family = family_of(&p->wire.source);
	struct address own;
	bool has_ipv6 = own_address(FAMILY_IPV6, &own);

	mtu -= overhead_of(has_ipv6 ? FAMILY_IPV6 : FAMILY_IPV4, family,
			   cookies() ? COOKIE_SIZE : 0);
	return mtu - sizeof(struct tcphdr) -
	       (family == FAMILY_IPV4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr));
}

/* The option's value is at `at`. A checksum sums words, of which it may be halves of two. */
static __always_inline int lower_mss(struct __sk_buff *skb, const struct packet *p, __u32 at,
				     __be16 from, __be16 to)
{
	bool is_odd = (at - p->transport) & 1;

	if (bpf_l4_csum_replace(skb, p->transport + TCP_CHECKSUM,
				is_odd ? __builtin_bswap16(from) : from,
				is_odd ? __builtin_bswap16(to) : to, sizeof(to)))
		return 0;
	return bpf_skb_store_bytes(skb, at, &to, sizeof(to), 0);
}

/* Of a packet with SYN, at egress. */
__noinline int fl_clamp_mss(struct __sk_buff *skb)
{
	struct packet *p = this_packet();
	__u32 at, end;
	__u8 offset;
	__u16 most;

	if (!p || bpf_skb_load_bytes(skb, p->transport + 12, &offset, sizeof(offset)))
		return 0;
	at = p->transport + sizeof(struct tcphdr);
	end = p->transport + (offset >> 4) * 4;
	most = greatest_mss(p);
	for (int i = 0; i < TCP_OPTIONS && at + TCP_MSS_SIZE <= end; i++) {
		__u8 option[TCP_MSS_SIZE];
		__u16 told;

		if (bpf_skb_load_bytes(skb, at, option, sizeof(option)) ||
		    option[0] == TCP_OPTION_END)
			break;
		told = option[2] << 8 | option[3];
		if (option[0] == TCP_OPTION_MSS)
			return told > most
				       ? lower_mss(skb, p, at + 2, bpf_htons(told), bpf_htons(most))
				       : 0;
		at += option[0] == TCP_OPTION_NONE ? 1 : option[1];
	}
	return 0;
}

static __always_inline void clamp_mss(hook_context *ctx)
{
	fl_clamp_mss(ctx);
}

#endif
