/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Headers of packets, and what struct packet has of them. */
#ifndef FAIRLEAD_HEADERS_H
#define FAIRLEAD_HEADERS_H

#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "packet/conn/life/believe.h"
#include "packet/packet.h"

#define IPV4_MORE_FRAGMENTS 0x2000
#define IPV4_FRAGMENT	    0x1fff

/* Version and header length of an IPv4 packet without options. */
#define PLAIN_IPV4 0x45

static __always_inline void read_tcp(struct packet *p, const struct tcphdr *tcp)
{
	__u32 sequence = bpf_ntohl(tcp->seq), acknowledged = bpf_ntohl(tcp->ack_seq);

	p->tcp_flags = ((const __u8 *)tcp)[13];
	p->progress = (sequence & 0xffff0000) | acknowledged >> 16;
	p->syn = 0;
	p->answered_syn = 0;
	if (unlikely(p->tcp_flags & (TCP_SYN | TCP_RST))) {
		if (p->tcp_flags & TCP_ACK)
			p->answered_syn = syn_at(acknowledged - 1);
		else if (!(p->tcp_flags & (TCP_FIN | TCP_RST))) /* with these no stack sends it */
			p->syn = syn_at(sequence);
	}
	p->has_checksum = true;
}

static __always_inline bool parse_plain_tcp(struct packet *p, const struct tcphdr *tcp)
{
	read_tcp(p, tcp);
	return tcp->doff >= sizeof(*tcp) / 4;
}

#endif
