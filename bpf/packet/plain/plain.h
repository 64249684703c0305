/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Plain packets, which most are: TCP or UDP behind an IP header without options, no fragment, all
 * headers in one piece and consistent. They are read where they are; parse.h reads all others, and
 * counts what is wrong with them.
 */
#ifndef FAIRLEAD_PLAIN_H
#define FAIRLEAD_PLAIN_H

#include "packet/parse.h"

struct plain4 {
	struct iphdr ip;
	union {
		struct udphdr udp;
		struct tcphdr tcp;
	};
};

/* Fills struct packet. False: this is no plain packet. */
static __always_inline bool parse_plain4(struct __sk_buff *skb, struct packet *p, __u32 network)
{
	const struct plain4 *h = (void *)(long)skb->data + network;
	const void *end = (void *)(long)skb->data_end;
	__u32 length;

	if (skb->protocol != bpf_htons(ETH_P_IP) || (const void *)(&h->udp + 1) > end ||
	    *(const __u8 *)h != PLAIN_IPV4 ||
	    h->ip.frag_off & bpf_htons(IPV4_MORE_FRAGMENTS | IPV4_FRAGMENT))
		return false;
	length = bpf_ntohs(h->ip.tot_len);
	if (length > skb->len - network)
		return false;
	if (h->ip.protocol == IPPROTO_TCP) {
		if ((const void *)(&h->tcp + 1) > end || length < sizeof(h->ip) + sizeof(h->tcp) ||
		    !parse_plain_tcp(p, &h->tcp))
			return false;
	} else {
		if (h->ip.protocol != IPPROTO_UDP || length < sizeof(h->ip) + sizeof(h->udp))
			return false;
		p->tcp_flags = 0;
		p->syn = 0;
		p->has_checksum = h->udp.check != 0;
	}
	set_ipv4(&p->wire.source, h->ip.saddr);
	set_ipv4(&p->wire.destination, h->ip.daddr);
	p->wire.source_port = bpf_ntohs(h->udp.source);
	p->wire.destination_port = bpf_ntohs(h->udp.dest);
	p->wire.protocol = h->ip.protocol;
	p->ip_checksum = h->ip.check;
	p->length = length;
	p->network = network;
	p->transport = network + sizeof(h->ip);
	p->is_fragment = false;
	p->is_later_fragment = false;
	p->is_plain = true;
	return true;
}

#endif
