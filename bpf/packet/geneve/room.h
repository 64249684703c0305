/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What direct return needs of the kernel beside what all packets need: room for headers around a
 * packet, the packet without them, and the way out past the stack. No maps: bpf/probe/direct.bpf.c
 * tries these functions on a kernel before a node says that it takes such requests.
 */
#ifndef FAIRLEAD_GENEVE_ROOM_H
#define FAIRLEAD_GENEVE_ROOM_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include "common/address.h"

static __always_inline __u64 flags_of_outer(enum family outer)
{
	return outer == FAMILY_IPV4 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV6;
}

/* Behind the Ethernet header. `flags`: those of the outer header, and of what follows it. */
static __always_inline long make_room_around(struct __sk_buff *skb, __u32 size, __u64 flags)
{
	return bpf_skb_adjust_room(skb, size, BPF_ADJ_ROOM_MAC, flags);
}

/* What changes the family of a packet gives it as much more, or less, room for a header. */
#define FAMILIES_DIFFER (sizeof(struct ipv6hdr) - sizeof(struct iphdr))

/* Takes off `size` bytes, and leaves a packet of the family. */
static __always_inline long take_off(struct __sk_buff *skb, __s32 size, enum family outer,
				     enum family inner)
{
	if (outer != inner) {
		__be16 type = bpf_htons(inner == FAMILY_IPV4 ? ETH_P_IP : ETH_P_IPV6);

		if (bpf_skb_change_proto(skb, type, 0))
			return -1;
		size += inner == FAMILY_IPV4 ? -(__s32)FAMILIES_DIFFER : (__s32)FAMILIES_DIFFER;
	}
	return bpf_skb_adjust_room(skb, -size, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO);
}

/* The kernel knows the family of what is left; the frame may have that of what was there. */
static __always_inline void write_ethertype(struct __sk_buff *skb)
{
	__be16 type = skb->protocol;

	bpf_skb_store_bytes(skb, offsetof(struct ethhdr, h_proto), &type, sizeof(type), 0);
}

/* As `fib` says, which has been looked up. */
static __always_inline int send_by(const struct bpf_fib_lookup *fib)
{
	struct bpf_redir_neigh next = {.nh_family = fib->family};

	__builtin_memcpy(next.ipv6_nh, fib->ipv6_dst, sizeof(next.ipv6_nh));
	return bpf_redirect_neigh(fib->ifindex, &next, sizeof(next), 0);
}

#endif
