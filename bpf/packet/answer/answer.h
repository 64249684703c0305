/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the answers to refused packets have in common. The packet becomes its own answer, and leaves
 * by the device that it came in by, to the station that it came from: a route back need not exist
 * on this node.
 *
 * The packet may be one whose checksum the sender left to the device: the sum from its transport
 * header on will then be written into its checksum field when the answer is sent, whatever the
 * answer says. There is no way to tell, or to take that back. So the bytes from there on are chosen
 * such that this field is already what would be written.
 */
#ifndef FAIRLEAD_ANSWER_H
#define FAIRLEAD_ANSWER_H

#include "packet/hook.h"
#include "packet/parse.h"
#include "packet/sum.h"

#define ANSWER_TTL 64
#define MAC_SIZE   6

/* <linux/icmp.h> cannot be included here. */
struct icmp_header {
	__u8 type;
	__u8 code;
	__u16 checksum;
	__u32 rest;
};

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

#endif
