/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Echo requests to the address of a Service, which no station has: they become their own replies.
 * An option, because the answer says nothing about the Service's endpoints.
 */
#ifndef FAIRLEAD_PING_H
#define FAIRLEAD_PING_H

#include "packet/answer/answer.h"
#include "packet/rewrite.h"

#define ICMP_ECHO	  8
#define ICMP_ECHO_REPLY	  0
#define ICMPV6_ECHO	  128
#define ICMPV6_ECHO_REPLY 129

/* With options or extension headers, which might need another answer, it is left. */
static __always_inline bool is_echo_request(struct __sk_buff *skb, const struct packet *p,
					    enum family family)
{
	__u32 header = family == FAMILY_IPV4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	struct icmp_header icmp;

	return p->icmp == p->network + header && p->length >= header + sizeof(icmp) &&
	       !bpf_skb_load_bytes(skb, p->icmp, &icmp, sizeof(icmp)) &&
	       icmp.type == (family == FAMILY_IPV4 ? ICMP_ECHO : ICMPV6_ECHO) && !icmp.code;
}

static __always_inline bool answers_ping(const struct packet *p)
{
	const struct packet_settings *s = packet_settings();

	return s && s->flags.answer_ping && bpf_map_lookup_elem(&fl_ping, &p->wire.destination);
}

/* That of ICMPv6 covers the addresses, whose sum stays. */
static __always_inline int store_type(struct __sk_buff *skb, const struct packet *p,
				      enum family family)
{
	__u8 type = family == FAMILY_IPV4 ? ICMP_ECHO_REPLY : ICMPV6_ECHO_REPLY;
	__be16 from = bpf_htons((family == FAMILY_IPV4 ? ICMP_ECHO : ICMPV6_ECHO) << 8);

	return bpf_l4_csum_replace(skb, p->icmp + ICMP_CHECKSUM, from, bpf_htons(type << 8),
				   sizeof(from)) |
	       bpf_skb_store_bytes(skb, p->icmp, &type, sizeof(type), 0);
}

static __always_inline int store_header4(struct __sk_buff *skb, const struct packet *p)
{
	__u32 at = p->network + offsetof(struct iphdr, ttl);
	__be32 addresses[] = {p->wire.destination.word[3], p->wire.source.word[3]};
	__u8 ttl = ANSWER_TTL;
	__be16 from, to;

	if (bpf_skb_load_bytes(skb, at, &from, sizeof(from)))
		return 1;
	to = bpf_htons(ANSWER_TTL << 8 | IPPROTO_ICMP);
	return bpf_l3_csum_replace(skb, p->network + offsetof(struct iphdr, check), from, to,
				   sizeof(to)) |
	       bpf_skb_store_bytes(skb, at, &ttl, sizeof(ttl), 0) |
	       bpf_skb_store_bytes(skb, p->network + offsetof(struct iphdr, saddr), addresses,
				   sizeof(addresses), 0);
}

static __always_inline int store_header6(struct __sk_buff *skb, const struct packet *p)
{
	struct address addresses[] = {p->wire.destination, p->wire.source};
	__u8 hops = ANSWER_TTL;

	return bpf_skb_store_bytes(skb, p->network + offsetof(struct ipv6hdr, hop_limit), &hops,
				   sizeof(hops), BPF_F_RECOMPUTE_CSUM) |
	       bpf_skb_store_bytes(skb, p->network + offsetof(struct ipv6hdr, saddr), addresses,
				   sizeof(addresses), 0);
}

static __always_inline int ping(struct __sk_buff *skb, enum family family)
{
	struct packet *p = this_packet();

	if (!p || !answers_ping(p) || !is_echo_request(skb, p, family))
		return LEAVE;
	if (!is_unicast(&p->wire.source, family))
		return unanswered(REASON_NOT_ANSWERED);
	if (!take_token())
		return unanswered(REASON_ANSWER_LIMITED);
	if (family == FAMILY_IPV4 ? store_header4(skb, p) : store_header6(skb, p))
		return unanswered(REASON_NOT_ANSWERED);
	if (store_type(skb, p, family))
		return unanswered(REASON_NOT_ANSWERED);
	count_reason(REASON_PING_ANSWERED);
	return send_back(skb, p);
}

__noinline int fl_answer_ping4(struct __sk_buff *skb)
{
	return ping(skb, FAMILY_IPV4);
}

__noinline int fl_answer_ping6(struct __sk_buff *skb)
{
	return ping(skb, FAMILY_IPV6);
}

#endif
