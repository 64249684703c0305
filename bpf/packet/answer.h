/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers to packets that are refused: ICMP port unreachable, or a TCP RST. The packet becomes its
 * own answer, and leaves by the device that it came in by, to the station that it came from: a
 * route back need not exist on this node.
 *
 * The packet may be one whose checksum the sender left to the device: the sum from its transport
 * header on will then be written into its checksum field when the answer is sent, whatever the
 * answer says. There is no way to tell, or to take that back. So the bytes from there on are chosen
 * such that this field is already what would be written.
 */
#ifndef FAIRLEAD_ANSWER_H
#define FAIRLEAD_ANSWER_H

#include "packet/rewrite.h"

#define ANSWER_TTL 64
#define MAC_SIZE   6

/* --- sums of 16-bit words in ones' complement, as they are in memory ----------------------------
 */

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* Half of it: x such that x + x is the sum. A rotation, as 2 * 2^15 is 1 modulo 2^16 - 1. */
static __always_inline __u16 half(__u16 sum)
{
	return sum >> 1 | sum << 15;
}

static __always_inline __u64 sum_of_addresses(const struct tuple *t, enum family family)
{
	__u64 sum = (__u64)t->source.word[3] + t->destination.word[3];

	if (family == FAMILY_IPV6) {
		sum += (__u64)t->source.word[0] + t->source.word[1] + t->source.word[2];
		sum += (__u64)t->destination.word[0] + t->destination.word[1] +
		       t->destination.word[2];
	}
	return sum;
}

/* Of the header that a checksum covers besides the packet. */
static __always_inline __u64 pseudo_sum(const struct tuple *t, __u16 length, __u8 protocol,
					enum family family)
{
	return sum_of_addresses(t, family) + bpf_htons(length) + bpf_htons(protocol);
}

/* --- whether to answer -------------------------------------------------------------------------
 */

static __always_inline bool take_token(void)
{
	const struct packet_settings *s = packet_settings();
	struct answer_budget *budget = bpf_map_lookup_elem(&fl_answers, &runtime_key);
	__u64 now = bpf_ktime_get_ns(), elapsed, earned;

	if (!s || !budget)
		return false;
	elapsed = now - budget->refilled_ns;
	if (elapsed > NS_PER_SECOND)
		elapsed = NS_PER_SECOND;
	earned = elapsed * s->answers_per_second / NS_PER_SECOND;
	if (earned) {
		budget->refilled_ns = now;
		budget->tokens += earned;
		if (budget->tokens > s->answers_per_second)
			budget->tokens = s->answers_per_second;
	}
	if (!budget->tokens)
		return false;
	budget->tokens -= 1;
	return true;
}

/* An address that one station has (RFC 1122, 3.2.2): no answer goes to many or to oneself. */
static __always_inline bool is_unicast(const struct address *a, enum family family)
{
	__u32 first;

	if (is_loopback(a, family))
		return false;
	if (family == FAMILY_IPV6)
		return a->byte[0] != 0xff && (a->word[0] | a->word[1] | a->word[2] | a->word[3]);
	first = bpf_ntohl(a->word[3]) >> 24;
	return first != 0 && first < 224;
}

static __always_inline int unanswered(enum reason reason)
{
	count_reason(reason);
	return TC_ACT_SHOT;
}

/* --- the way back ------------------------------------------------------------------------------
 */

static __always_inline int send_back(struct __sk_buff *skb, const struct packet *p)
{
	__u8 mac[2 * MAC_SIZE], swapped[2 * MAC_SIZE];

	if (p->has_mac) {
		if (bpf_skb_load_bytes(skb, 0, mac, sizeof(mac)))
			return unanswered(REASON_NOT_ANSWERED);
		__builtin_memcpy(swapped, mac + MAC_SIZE, MAC_SIZE);
		__builtin_memcpy(swapped + MAC_SIZE, mac, MAC_SIZE);
		if (bpf_skb_store_bytes(skb, 0, swapped, sizeof(swapped), 0))
			return unanswered(REASON_NOT_ANSWERED);
	}
	return bpf_redirect(skb->ifindex, 0);
}

static __always_inline struct iphdr ipv4_header(const struct tuple *t, __u16 payload, __u8 protocol)
{
	struct iphdr ip = {
		.version = 4,
		.ihl = sizeof(ip) / 4,
		.tot_len = bpf_htons(sizeof(ip) + payload),
		.ttl = ANSWER_TTL,
		.protocol = protocol,
		.saddr = t->source.word[3],
		.daddr = t->destination.word[3],
	};

	ip.check = ~fold(bpf_csum_diff(NULL, 0, (__be32 *)&ip, sizeof(ip), 0));
	return ip;
}

static __always_inline struct ipv6hdr ipv6_header(const struct tuple *t, __u16 payload,
						  __u8 protocol)
{
	struct ipv6hdr ip = {
		.version = 6,
		.payload_len = bpf_htons(payload),
		.hop_limit = ANSWER_TTL,
		.nexthdr = protocol,
	};

	__builtin_memcpy(&ip.saddr, &t->source, sizeof(ip.saddr));
	__builtin_memcpy(&ip.daddr, &t->destination, sizeof(ip.daddr));
	return ip;
}

/* --- ICMP port unreachable ---------------------------------------------------------------------
 */

/* Sum of the quote, whose transport header ends it, with its final checksum. */
static __always_inline __u64 sum_of_quote(struct packet *p, __u64 at, __u64 size)
{
	__u32 header = header_size(p->wire.protocol);
	__u64 field = at + (p->wire.protocol == PROTOCOL_TCP ? TCP_CHECKSUM : UDP_CHECKSUM);
	__u16 rest;

	if (p->has_checksum && field <= MAX_QUOTE - sizeof(__u16) &&
	    at <= MAX_QUOTE - sizeof(struct tcphdr)) {
		*(__u16 *)&p->quote[field] = 0;
		rest = fold(header == sizeof(struct tcphdr)
				    ? bpf_csum_diff(NULL, 0, (__be32 *)&p->quote[at],
						    sizeof(struct tcphdr), 0)
				    : bpf_csum_diff(NULL, 0, (__be32 *)&p->quote[at],
						    sizeof(struct udphdr), 0));
		*(__u16 *)&p->quote[field] = half(~rest);
	}
	return bpf_csum_diff(NULL, 0, (__be32 *)p->quote, size, 0);
}

/* <linux/icmp.h> cannot be included here. */
struct icmp_header {
	__u8 type;
	__u8 code;
	__u16 checksum;
	__u32 rest;
};

#define ICMP_UNREACHABLE	3
#define ICMP_PORT_UNREACHABLE	3
#define ICMPV6_UNREACHABLE	1
#define ICMPV6_PORT_UNREACHABLE 4

struct unreachable4 {
	struct iphdr ip;
	struct icmp_header icmp;
};

struct unreachable6 {
	struct ipv6hdr ip;
	struct icmp_header icmp;
};

static __always_inline int store_unreachable4(struct __sk_buff *skb, const struct tuple *t,
					      __u32 network, __u32 size, __u64 sum)
{
	struct unreachable4 u = {
		.icmp = {.type = ICMP_UNREACHABLE, .code = ICMP_PORT_UNREACHABLE},
	};

	u.ip = ipv4_header(t, sizeof(u.icmp) + size, IPPROTO_ICMP);
	u.icmp.checksum = ~fold(sum + bpf_csum_diff(NULL, 0, (__be32 *)&u.icmp, sizeof(u.icmp), 0));
	return bpf_skb_store_bytes(skb, network, &u, sizeof(u), 0);
}

static __always_inline int store_unreachable6(struct __sk_buff *skb, const struct tuple *t,
					      __u32 network, __u32 size, __u64 sum)
{
	struct unreachable6 u = {
		.icmp = {.type = ICMPV6_UNREACHABLE, .code = ICMPV6_PORT_UNREACHABLE},
	};

	u.ip = ipv6_header(t, sizeof(u.icmp) + size, IPPROTO_ICMPV6);
	sum += pseudo_sum(t, sizeof(u.icmp) + size, IPPROTO_ICMPV6, FAMILY_IPV6);
	u.icmp.checksum = ~fold(sum + bpf_csum_diff(NULL, 0, (__be32 *)&u.icmp, sizeof(u.icmp), 0));
	return bpf_skb_store_bytes(skb, network, &u, sizeof(u), 0);
}

/* All of `size` bytes have been read into p->quote. Leaves room for the headers in front. */
static __always_inline bool make_room(struct __sk_buff *skb, const struct packet *p, __u32 size,
				      __u32 headers)
{
	return !bpf_skb_change_tail(skb, p->network + size, 0) &&
	       !bpf_skb_adjust_room(skb, headers, BPF_ADJ_ROOM_MAC, 0);
}

static __always_inline int refuse(struct __sk_buff *skb, enum family family)
{
	__u32 headers =
		family == FAMILY_IPV4 ? sizeof(struct unreachable4) : sizeof(struct unreachable6);
	struct packet *p = this_packet();
	struct tuple *back;
	__u64 at, size; /* 64 bits wide, so that the verifier sees that what is checked is used */
	__u64 sum;

	if (!p || !is_unicast(&p->wire.source, family))
		return unanswered(REASON_NOT_ANSWERED);
	if (!take_token())
		return unanswered(REASON_ANSWER_LIMITED);
	at = (__u64)p->transport - p->network;
	size = at + header_size(p->wire.protocol);
	if (size < ICMP_HEADER_SIZE || size > MAX_QUOTE ||
	    bpf_skb_load_bytes(skb, p->network, p->quote, size))
		return unanswered(REASON_NOT_ANSWERED);
	sum = sum_of_quote(p, at, size);
	back = &p->snat; /* not used otherwise for a packet that has no flow */
	reverse(&p->wire, back);
	if (!make_room(skb, p, size, headers) ||
	    bpf_skb_store_bytes(skb, p->network + headers, p->quote, size, 0))
		return unanswered(REASON_NOT_ANSWERED);
	if (family == FAMILY_IPV4 ? store_unreachable4(skb, back, p->network, size, sum)
				  : store_unreachable6(skb, back, p->network, size, sum))
		return unanswered(REASON_NOT_ANSWERED);
	return send_back(skb, p);
}

__noinline int fl_refuse4(struct __sk_buff *skb)
{
	return refuse(skb, FAMILY_IPV4);
}

__noinline int fl_refuse6(struct __sk_buff *skb)
{
	return refuse(skb, FAMILY_IPV6);
}

/* --- TCP RST -----------------------------------------------------------------------------------
 */

/* RFC 9293, 3.10.7.1: the other side must believe that it comes from its peer. */
static __always_inline struct tcphdr reset_of(const struct packet *p, const struct tcphdr *tcp,
					      enum family family)
{
	__u32 sent = p->length - (p->transport - p->network) - tcp->doff * 4 + tcp->syn + tcp->fin;
	struct tcphdr reset = {
		.source = tcp->dest,
		.dest = tcp->source,
		.seq = tcp->ack ? tcp->ack_seq : 0,
		.ack_seq = tcp->ack ? 0 : bpf_htonl(bpf_ntohl(tcp->seq) + sent),
		.doff = sizeof(reset) / 4,
		.rst = 1,
		.ack = !tcp->ack,
	};
	__u64 pseudo = pseudo_sum(&p->wire, sizeof(reset), PROTOCOL_TCP, family);
	__u64 rest = bpf_csum_diff(NULL, 0, (__be32 *)&reset, sizeof(reset), 0);

	/* The window of a RST says nothing: it makes the final checksum a right one. */
	reset.window = ~fold(rest + 2 * pseudo);
	reset.check = fold(pseudo);
	return reset;
}

static __always_inline int store_reset(struct __sk_buff *skb, struct packet *p,
				       const struct tcphdr *reset, enum family family)
{
	struct tuple *back = &p->snat;

	reverse(&p->wire, back);
	if (family == FAMILY_IPV4) {
		struct iphdr ip = ipv4_header(back, sizeof(*reset), PROTOCOL_TCP);

		return bpf_skb_change_tail(skb, p->network + sizeof(ip) + sizeof(*reset), 0) ||
		       bpf_skb_store_bytes(skb, p->network, &ip, sizeof(ip), 0) ||
		       bpf_skb_store_bytes(skb, p->network + sizeof(ip), reset, sizeof(*reset), 0);
	} else {
		struct ipv6hdr ip = ipv6_header(back, sizeof(*reset), PROTOCOL_TCP);

		return bpf_skb_change_tail(skb, p->network + sizeof(ip) + sizeof(*reset), 0) ||
		       bpf_skb_store_bytes(skb, p->network, &ip, sizeof(ip), 0) ||
		       bpf_skb_store_bytes(skb, p->network + sizeof(ip), reset, sizeof(*reset), 0);
	}
}

static __always_inline int reset(struct __sk_buff *skb, enum family family)
{
	struct packet *p = this_packet();
	struct tcphdr tcp, answer;

	/* A RST is never answered by another one. */
	if (!p || p->tcp_flags & TCP_RST || !is_unicast(&p->wire.source, family))
		return unanswered(REASON_NOT_ANSWERED);
	if (!take_token())
		return unanswered(REASON_ANSWER_LIMITED);
	if (bpf_skb_load_bytes(skb, p->transport, &tcp, sizeof(tcp)))
		return unanswered(REASON_NOT_ANSWERED);
	answer = reset_of(p, &tcp, family);
	if (store_reset(skb, p, &answer, family))
		return unanswered(REASON_NOT_ANSWERED);
	return send_back(skb, p);
}

__noinline int fl_reset4(struct __sk_buff *skb)
{
	return reset(skb, FAMILY_IPV4);
}

__noinline int fl_reset6(struct __sk_buff *skb)
{
	return reset(skb, FAMILY_IPV6);
}

#endif
