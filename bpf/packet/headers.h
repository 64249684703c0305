/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Headers of packets, and what the record of a packet has of them. */
#ifndef FAIRLEAD_HEADERS_H
#define FAIRLEAD_HEADERS_H

#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "packet/packet.h"

#define IPV4_MORE_FRAGMENTS 0x2000
#define IPV4_FRAGMENT	    0x1fff

/* Version and header length of an IPv4 packet without options. */
#define PLAIN_IPV4 0x45

/* Of the sequence number: tells a SYN that was translated from one of another connection. */
static __always_inline __u8 syn_of(const struct tcphdr *tcp)
{
	__u8 hash = mix(0, tcp->seq) >> 56;

	if (!tcp->syn || tcp->ack)
		return 0;
	return hash ? hash : 1;
}

static __always_inline tcp_progress progress_of_tcp(const struct tcphdr *tcp)
{
	return (bpf_ntohl(tcp->seq) & 0xffff0000) | bpf_ntohl(tcp->ack_seq) >> 16;
}

static __always_inline bool parse_plain_tcp(struct packet *p, const struct tcphdr *tcp)
{
	p->tcp_flags = ((const __u8 *)tcp)[13];
	p->syn = syn_of(tcp);
	p->progress = progress_of_tcp(tcp);
	p->has_checksum = true;
	return tcp->doff >= sizeof(*tcp) / 4;
}

#endif
