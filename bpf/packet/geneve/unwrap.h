/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Takes a request out of Geneve. Of what comes to the port, only that with this proxy's VNI and
 * option is looked at; all else may be of another tunnel, and is left.
 */
#ifndef FAIRLEAD_GENEVE_UNWRAP_H
#define FAIRLEAD_GENEVE_UNWRAP_H

#include "packet/answer/answer.h"
#include "packet/geneve/room.h"
#include "packet/geneve/way.h"

/* What becomes of a packet to the port. */
enum wrapped {
	WRAPPED_FOREIGN = 0,
	WRAPPED_MALFORMED = 1,
	WRAPPED_REQUEST = 2,
	WRAPPED_CUT = 3, /* a fragment that ends before it tells; conntrack may put it together */
} PACKED_ENUM;

/* To this node, as others know it. */
static __always_inline bool is_to_node(const struct packet *p)
{
	struct address own;

	return own_address(family_of(&p->wire.destination), &own) &&
	       is_same_address(&own, &p->wire.destination);
}

/* Pods send none: they may write any source, or be masqueraded as this node. */
__noinline int fl_is_from_pod(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;
	struct device *device = bpf_map_lookup_elem(&fl_device, &ifindex);

	return device && device->ifindex == ifindex && device->flags.leads_to_pod;
}

static __always_inline __u8 inner_family(const struct geneve_head *head)
{
	switch (head->geneve.protocol) {
	case bpf_htons(ETH_P_IP):
		return FAMILY_IPV4;
	case bpf_htons(ETH_P_IPV6):
		return FAMILY_IPV6;
	default:
		return 0;
	}
}

static __always_inline bool has_cookie(const struct geneve_head *head)
{
	return head->option.words != (inner_family(head) == FAMILY_IPV4
					      ? GENEVE_DATA_WORDS(FAMILY_IPV4)
					      : GENEVE_DATA_WORDS(FAMILY_IPV6));
}

static __always_inline bool is_well_formed(const struct geneve_head *head)
{
	__u8 words = inner_family(head) == FAMILY_IPV4 ? GENEVE_DATA_WORDS(FAMILY_IPV4)
						       : GENEVE_DATA_WORDS(FAMILY_IPV6);

	return inner_family(head) && head->geneve.flags == GENEVE_CRITICAL &&
	       head->geneve.words == head->option.words + 1 && head->option.type == GENEVE_TYPE &&
	       (head->option.words == words || head->option.words == words + COOKIE_WORDS) &&
	       head->option.version == GENEVE_TYPE_VERSION &&
	       !(head->option.flags & ~GENEVE_GIVEN_BACK);
}

/* Behind the address of the option, which ends at `at`. */
static __always_inline bool read_cookie(struct __sk_buff *skb, struct packet *p, __u32 at,
					const struct geneve_head *head)
{
	__u64 cookie = 0;

	p->way.cookie_size = has_cookie(head) ? COOKIE_SIZE : 0;
	if (!p->way.cookie_size)
		return true;
	if (at + sizeof(cookie) > p->network + p->length ||
	    bpf_skb_load_bytes(skb, at, &cookie, sizeof(cookie)))
		return false;
	p->way.cookie = cookie;
	return true;
}

/* Reads both headers, with no more of the option than an address of the family, and the cookie. */
static __always_inline enum wrapped read_geneve(struct __sk_buff *skb, struct packet *p,
						struct geneve_head *head)
{
	__u32 at = p->transport + sizeof(struct udphdr), end = p->network + p->length;

	if (at + GENEVE_SIZE4 > end)
		return p->is_fragment ? WRAPPED_CUT : WRAPPED_FOREIGN;
	if (bpf_skb_load_bytes(skb, at, head, GENEVE_SIZE4) ||
	    bpf_ntohl(head->geneve.vni) >> 8 != GENEVE_VNI ||
	    head->option.class != bpf_htons(GENEVE_CLASS))
		return WRAPPED_FOREIGN;
	if (!is_well_formed(head))
		return WRAPPED_MALFORMED;
	if (inner_family(head) == FAMILY_IPV4)
		at += GENEVE_SIZE4;
	else if (at + GENEVE_SIZE6 > end || bpf_skb_load_bytes(skb, at, head, GENEVE_SIZE6))
		return WRAPPED_MALFORMED;
	else
		at += GENEVE_SIZE6;
	return read_cookie(skb, p, at, head) ? WRAPPED_REQUEST : WRAPPED_MALFORMED;
}

/* --- taking it off -----------------------------------------------------------------------------
 */

static __always_inline void set_ethertype(struct __sk_buff *skb, const struct packet *p)
{
	if (p->has_mac)
		write_ethertype(skb);
}

static __always_inline __u32 size_of_outer(const struct packet *p)
{
	return family_of(&p->way.node) == FAMILY_IPV4 ? sizeof(struct iphdr)
						      : sizeof(struct ipv6hdr);
}

/* What is in the way, as options, we have not sent, and no fragments. */
static __always_inline bool can_be_unwrapped(const struct packet *p)
{
	__u32 network = p->has_mac ? ETH_HLEN : 0;

	return !p->is_fragment && p->network == network &&
	       p->transport == network + size_of_outer(p);
}

/* Into p->way and p->choice: where it comes from, and the backend. */
static __always_inline void note_wrapped(struct packet *p, const struct geneve_head *head)
{
	p->way.node = p->wire.source;
	p->way.source = p->wire.destination;
	p->way.option_flags = head->option.flags;
	p->way.inner = inner_family(head);
	__builtin_memset(&p->choice, 0, sizeof(p->choice));
	p->choice.port = bpf_ntohs(head->option.port);
	if (p->way.inner == FAMILY_IPV4)
		set_ipv4(&p->choice.address, head->option.backend[0]);
	else
		__builtin_memcpy(&p->choice.address, head->option.backend,
				 sizeof(p->choice.address));
}

/* Of the packet inside, as it has been parsed. False: it stays as it is. */
static __always_inline bool unwrap(struct __sk_buff *skb, struct packet *p)
{
	enum family outer = family_of(&p->way.node);
	__u32 size = overhead_by(&p->way, p->way.inner);

	if (take_off(skb, size, outer, p->way.inner))
		return false;
	set_ethertype(skb, p);
	p->network -= size;
	p->transport -= size;
	return true;
}

#endif
