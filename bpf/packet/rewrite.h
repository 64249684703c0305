/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rewrites one side of a packet, its source or its destination, with all checksums. Right for every
 * state that the kernel's own checksum of the packet may be in: complete, to be completed by the
 * device, already verified; and for packets that are yet to be segmented.
 */
#ifndef FAIRLEAD_REWRITE_H
#define FAIRLEAD_REWRITE_H

#include "packet/plain/head.h"

#define TCP_CHECKSUM  16
#define UDP_CHECKSUM  6
#define ICMP_CHECKSUM 2

/* That of ICMPv6 covers the addresses too, that of ICMP does not. */
static __always_inline __u32 checksum_offset(const struct packet *p)
{
	switch ((__u8)p->wire.protocol) {
	case PROTOCOL_TCP:
		return p->transport + TCP_CHECKSUM;
	case IPPROTO_ICMPV6:
		return p->icmp + ICMP_CHECKSUM;
	default:
		return p->transport + UDP_CHECKSUM;
	}
}

static __always_inline bool checksum_covers_addresses(const struct packet *p)
{
	return (__u8)p->wire.protocol == IPPROTO_ICMPV6 ||
	       ((__u8)p->wire.protocol != IPPROTO_ICMP && p->has_checksum);
}

/* A UDP checksum that comes out as 0 must be written as 0xffff: 0 says that there is none. */
static __always_inline __u64 checksum_flags(const struct packet *p)
{
	return p->wire.protocol == PROTOCOL_UDP ? BPF_F_MARK_MANGLED_0 : 0;
}

static __always_inline int rewrite_address4(struct __sk_buff *skb, struct packet *p, enum side side,
					    __be32 from)
{
	__u32 offset =
		side == SIDE_SOURCE ? offsetof(struct iphdr, saddr) : offsetof(struct iphdr, daddr);
	__be32 to = p->address.word[3];
	int error = 0;

	if (checksum_covers_addresses(p))
		error = bpf_l4_csum_replace(skb, checksum_offset(p), from, to,
					    checksum_flags(p) | BPF_F_PSEUDO_HDR | sizeof(to));
	error |= bpf_l3_csum_replace(skb, p->network + offsetof(struct iphdr, check), from, to,
				     sizeof(to));
	return error | bpf_skb_store_bytes(skb, p->network + offset, &to, sizeof(to), 0);
}

/*
 * bpf_l4_csum_replace() takes an address for one of IPv4, whose change the header's own checksum
 * makes up for, and so gets the kernel's complete checksum of an IPv6 packet wrong.
 * bpf_csum_update() puts it right, and does nothing to any other packet.
 */
static __always_inline int rewrite_address6(struct __sk_buff *skb, struct packet *p, enum side side,
					    struct address *from)
{
	__u32 offset = side == SIDE_SOURCE ? offsetof(struct ipv6hdr, saddr)
					   : offsetof(struct ipv6hdr, daddr);
	__s64 change =
		bpf_csum_diff(from->word, sizeof(*from), p->address.word, sizeof(p->address), 0);
	int error = 0;

	if (checksum_covers_addresses(p))
		error = bpf_l4_csum_replace(skb, checksum_offset(p), 0, change,
					    checksum_flags(p) | BPF_F_PSEUDO_HDR);
	bpf_csum_update(skb, change);
	return error | bpf_skb_store_bytes(skb, p->network + offset, p->address.byte,
					   sizeof(p->address), 0);
}

static __always_inline int rewrite_port(struct __sk_buff *skb, struct packet *p, enum side side,
					__u16 from)
{
	__u32 offset = p->transport + (side == SIDE_SOURCE ? 0 : 2);
	__be16 to = bpf_htons(p->port);

	if (from == p->port || p->is_later_fragment)
		return 0;
	if (!p->has_checksum)
		return bpf_skb_store_bytes(skb, offset, &to, sizeof(to), BPF_F_RECOMPUTE_CSUM);
	return bpf_l4_csum_replace(skb, checksum_offset(p), bpf_htons(from), to,
				   checksum_flags(p) | sizeof(to)) |
	       bpf_skb_store_bytes(skb, offset, &to, sizeof(to), 0);
}

/*
 * The same for a plain packet with a checksum, of which one store writes what the IP header ends
 * with and the ports behind it: the header's checksum, addresses and ports. That keeps the sum of
 * all these words, which the kernel's complete checksum of the packet is made of.
 */
static __always_inline int rewrite_plain4(struct __sk_buff *skb, struct packet *p, enum side side,
					  __be32 from, __u16 from_port)
{
	union {
		__be16 half[8];
		__be32 word[4];
	} head;
	__be32 to = p->address.word[3];
	int error = 0;

	if (from != to) {
		error = bpf_l4_csum_replace(skb, checksum_offset(p), from, to,
					    checksum_flags(p) | BPF_F_PSEUDO_HDR | sizeof(to));
		p->ip_checksum = ~fold((__u64)(__u16)~p->ip_checksum + (__u32)~from + to);
	}
	if (from_port != p->port)
		error |= bpf_l4_csum_replace(skb, checksum_offset(p), bpf_htons(from_port),
					     bpf_htons(p->port),
					     checksum_flags(p) | sizeof(from_port));
	head.half[1] = p->ip_checksum;
	head.word[1] = side == SIDE_SOURCE ? to : p->wire.source.word[3];
	head.word[2] = side == SIDE_SOURCE ? p->wire.destination.word[3] : to;
	head.half[6] = bpf_htons(side == SIDE_SOURCE ? p->port : p->wire.source_port);
	head.half[7] = bpf_htons(side == SIDE_SOURCE ? p->wire.destination_port : p->port);
	return error | bpf_skb_store_bytes(skb, p->network + offsetof(struct iphdr, check),
					   &head.half[1], sizeof(head) - sizeof(head.half[0]), 0);
}

/* To p->address and p->port, which are then also those of p->wire. */
static __always_inline int rewrite(struct __sk_buff *skb, struct packet *p, enum side side,
				   enum family family)
{
	struct address *address = side == SIDE_SOURCE ? &p->wire.source : &p->wire.destination;
	__u16 *port = side == SIDE_SOURCE ? &p->wire.source_port : &p->wire.destination_port;
	int error = 0;

	if (family == FAMILY_IPV4 && p->is_plain && p->has_checksum) {
		error = ip_summed_at ? rewrite_head4(skb, p, side, p->address.word[3], p->port)
				     : rewrite_plain4(skb, p, side, address->word[3], *port);
		*address = p->address;
		*port = p->port;
		return error;
	}
	if (!is_same_address(address, &p->address))
		error = family == FAMILY_IPV4 ? rewrite_address4(skb, p, side, address->word[3])
					      : rewrite_address6(skb, p, side, address);
	error |= rewrite_port(skb, p, side, *port);
	*address = p->address;
	*port = p->port;
	return error;
}

/* A packet that could be rewritten only in part must not leave. */
static __always_inline int action_of(int error)
{
	if (!error)
		return LEAVE;
	count_reason(REASON_NOT_REWRITTEN);
	return TC_ACT_SHOT;
}

__noinline int fl_set_source4(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? action_of(rewrite(skb, p, SIDE_SOURCE, FAMILY_IPV4)) : TC_ACT_SHOT;
}

__noinline int fl_set_source6(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? action_of(rewrite(skb, p, SIDE_SOURCE, FAMILY_IPV6)) : TC_ACT_SHOT;
}

__noinline int fl_set_dest4(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? action_of(rewrite(skb, p, SIDE_DESTINATION, FAMILY_IPV4)) : TC_ACT_SHOT;
}

__noinline int fl_set_dest6(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? action_of(rewrite(skb, p, SIDE_DESTINATION, FAMILY_IPV6)) : TC_ACT_SHOT;
}

/* The port of the other side stays. */
static __always_inline int set_source(struct __sk_buff *skb, struct packet *p,
				      const struct address *a, __u16 port, enum family family)
{
	if (port == p->wire.source_port && is_same_address(a, &p->wire.source))
		return LEAVE;
	p->address = *a;
	p->port = port;
	return family == FAMILY_IPV4 ? fl_set_source4(skb) : fl_set_source6(skb);
}

static __always_inline int set_destination(struct __sk_buff *skb, struct packet *p,
					   const struct address *a, __u16 port, enum family family)
{
	if (port == p->wire.destination_port && is_same_address(a, &p->wire.destination))
		return LEAVE;
	p->address = *a;
	p->port = port;
	return family == FAMILY_IPV4 ? fl_set_dest4(skb) : fl_set_dest6(skb);
}

#endif
