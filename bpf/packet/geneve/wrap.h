/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Puts a request into Geneve and sends it to p->way. Past the stack, which would take a packet from
 * an address of its own, at ingress, for a martian.
 */
#ifndef FAIRLEAD_GENEVE_WRAP_H
#define FAIRLEAD_GENEVE_WRAP_H

#include "packet/answer/refuse.h"
#include "packet/geneve/room.h"
#include "packet/geneve/way.h"

#define IPV4_DONT_FRAGMENT 0x4000
/* As Linux chooses it. All packets of a connection have one port, so that they take one way. */
#define FIRST_SOURCE_PORT 0xc000
#define OUTER_TTL	  64

/* --- what fits ---------------------------------------------------------------------------------
 */

/* The largest of the packets that the device makes of it, if it is to be segmented. */
static __always_inline __u32 segment_length(struct __sk_buff *skb, const struct packet *p)
{
	__u8 offset = 0;

	if (!skb->gso_size)
		return p->length;
	if (bpf_skb_load_bytes(skb, p->transport + 12, &offset, sizeof(offset)))
		return p->length;
	return p->transport - p->network + (offset >> 4) * 4 + skb->gso_size;
}

/* Segments that are too long by less than the headers are made shorter. */
static __always_inline bool fits(struct __sk_buff *skb, const struct packet *p, __u32 overhead)
{
	__u32 length = segment_length(skb, p);

	return length + (skb->gso_size ? 0 : overhead) <= p->way.mtu;
}

/* --- headers -----------------------------------------------------------------------------------
 */

/*
 * Of a header's field: 0 says "all that is there", as the kernel has it for what it has put
 * together. That is longer than a field can tell, when the headers are added, and every segment
 * that is made of it gets its own length.
 */
static __always_inline __be16 length_field(__u32 length)
{
	return length > 0xffff ? 0 : bpf_htons(length);
}

/* Of the connection of a request: nobody else knows the secret. */
static __always_inline __u16 outer_port(const struct packet *p, const struct tuple *request,
					enum family inner)
{
	return FIRST_SOURCE_PORT | (hash_tuple(p->env.secret, request, inner) >> 32 & 0x3fff);
}

static __always_inline void set_udp(const struct packet *p, struct udphdr *udp, __u32 length,
				    __u16 port)
{
	udp->source = bpf_htons(port);
	udp->dest = bpf_htons(p->way.port);
	udp->len = length_field(length);
	udp->check = 0; /* for IPv6 see RFC 6935: the packet inside has its own */
}

static __always_inline long store_outer4(struct __sk_buff *skb, const struct packet *p,
					 __u32 length, __u16 port)
{
	struct outer4 outer = {
		.ip =
			{
				.version = 4,
				.ihl = sizeof(outer.ip) / 4,
				.tot_len = length_field(length),
				.frag_off = bpf_htons(IPV4_DONT_FRAGMENT),
				.ttl = OUTER_TTL,
				.protocol = IPPROTO_UDP,
				.saddr = p->way.source.word[3],
				.daddr = p->way.node.word[3],
			},
	};

	outer.ip.check = ~fold(bpf_csum_diff(NULL, 0, (__be32 *)&outer.ip, sizeof(outer.ip), 0));
	set_udp(p, &outer.udp, length - sizeof(outer.ip), port);
	return bpf_skb_store_bytes(skb, p->network, &outer, sizeof(outer), 0);
}

static __always_inline long store_outer6(struct __sk_buff *skb, const struct packet *p,
					 __u32 length, __u16 port)
{
	struct outer6 outer = {
		.ip =
			{
				.version = 6,
				.payload_len = length_field(length - sizeof(outer.ip)),
				.nexthdr = IPPROTO_UDP,
				.hop_limit = OUTER_TTL,
			},
	};

	__builtin_memcpy(&outer.ip.saddr, &p->way.source, sizeof(outer.ip.saddr));
	__builtin_memcpy(&outer.ip.daddr, &p->way.node, sizeof(outer.ip.daddr));
	set_udp(p, &outer.udp, length - sizeof(outer.ip), port);
	return bpf_skb_store_bytes(skb, p->network, &outer, sizeof(outer), 0);
}

static __always_inline long store_geneve(struct __sk_buff *skb, const struct packet *p, __u32 at,
					 enum family inner)
{
	__u32 words = GENEVE_DATA_WORDS(inner) + p->way.cookie_size / 4;
	struct geneve_head head = {
		.geneve =
			{
				.words = 1 + words,
				.flags = GENEVE_CRITICAL,
				.protocol = bpf_htons(inner == FAMILY_IPV4 ? ETH_P_IP : ETH_P_IPV6),
				.vni = bpf_htonl(GENEVE_VNI << 8),
			},
		.option =
			{
				.class = bpf_htons(GENEVE_CLASS),
				.type = GENEVE_TYPE,
				.words = words,
				.version = GENEVE_TYPE_VERSION,
				.port = bpf_htons(p->conn.conn.backend_port),
			},
	};

	__u32 size = inner == FAMILY_IPV4 ? GENEVE_SIZE4 : GENEVE_SIZE6;
	__u64 cookie = p->way.cookie;

	if (inner == FAMILY_IPV4)
		head.option.backend[0] = p->backend.word[3];
	else
		__builtin_memcpy(head.option.backend, &p->backend, sizeof(head.option.backend));
	if (p->way.cookie_size && bpf_skb_store_bytes(skb, at + size, &cookie, sizeof(cookie), 0))
		return -1;
	return bpf_skb_store_bytes(skb, at, &head, size, 0);
}

/* --- the hop -----------------------------------------------------------------------------------
 */

/* As a router does it. False: it would have been the last one. */
static __always_inline long spend_hop(struct __sk_buff *skb, const struct packet *p,
				      enum family inner)
{
	__u32 at = p->network + (inner == FAMILY_IPV4 ? offsetof(struct iphdr, ttl)
						      : offsetof(struct ipv6hdr, nexthdr));
	__u8 from[2], to[2];
	__be16 word, changed;

	if (bpf_skb_load_bytes(skb, at, from, sizeof(from)))
		return -1;
	to[0] = inner == FAMILY_IPV4 ? from[0] - 1 : from[0];
	to[1] = inner == FAMILY_IPV4 ? from[1] : from[1] - 1;
	if (inner == FAMILY_IPV6)
		return bpf_skb_store_bytes(skb, at, to, sizeof(to), BPF_F_RECOMPUTE_CSUM);
	__builtin_memcpy(&word, from, sizeof(word));
	__builtin_memcpy(&changed, to, sizeof(changed));
	return bpf_l3_csum_replace(skb, p->network + offsetof(struct iphdr, check), word, changed,
				   sizeof(word)) |
	       bpf_skb_store_bytes(skb, at, to, sizeof(to), 0);
}

static __always_inline bool has_hops(struct __sk_buff *skb, const struct packet *p,
				     enum family inner)
{
	__u8 hops = 0;

	return !bpf_skb_load_bytes(skb,
				   p->network + (inner == FAMILY_IPV4
							 ? offsetof(struct iphdr, ttl)
							 : offsetof(struct ipv6hdr, hop_limit)),
				   &hops, sizeof(hops)) &&
	       hops > 1;
}

/* --- all of it ---------------------------------------------------------------------------------
 */

/* `flags`: what follows the outer network header. */
static __always_inline long make_outer_room(struct __sk_buff *skb, const struct packet *p,
					    __u32 overhead, enum family outer, __u64 flags)
{
	flags |= flags_of_outer(outer);
	if (segment_length(skb, p) + overhead <= p->way.mtu)
		flags |= BPF_F_ADJ_ROOM_FIXED_GSO;
	return make_room_around(skb, overhead, flags);
}

/* The family of the packet is a constant; that of the nodes is not. */
static __always_inline int wrap(struct __sk_buff *skb, struct packet *p, enum family inner)
{
	enum family outer = family_of(&p->way.node);
	__u32 overhead = overhead_by(&p->way, inner), length = p->length + overhead;
	__u16 port = outer_port(p, &p->wire, inner);
	long error;

	if (spend_hop(skb, p, inner) ||
	    make_outer_room(skb, p, overhead, outer, BPF_F_ADJ_ROOM_ENCAP_L4_UDP))
		return unanswered(REASON_DIRECT_NOT_WRAPPED);
	error = outer == FAMILY_IPV4 ? store_outer4(skb, p, length, port)
				     : store_outer6(skb, p, length, port);
	error |= store_geneve(
		skb, p,
		p->network + (outer == FAMILY_IPV4 ? sizeof(struct outer4) : sizeof(struct outer6)),
		inner);
	return error ? unanswered(REASON_DIRECT_NOT_WRAPPED) : send_by(&p->way.fib);
}

#endif
