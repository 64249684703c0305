/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP packets of unknown connections: a RST. */
#ifndef FAIRLEAD_RESET_H
#define FAIRLEAD_RESET_H

#include "packet/answer/answer.h"

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
	struct tuple *back = &p->back;

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
