/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors and the packet that they quote: reads both, and rewrites one side of the quoted one
 * with all checksums. p->wire is the error itself, without ports; p->quoted is what it quotes.
 */
#ifndef FAIRLEAD_QUOTED_H
#define FAIRLEAD_QUOTED_H

#include "packet/rewrite.h"
#include "packet/sum.h"

/* Ports, and of UDP also the checksum: what every error quotes of the transport header. */
#define QUOTED_TRANSPORT 8

/* Unreachable, time exceeded, parameter problem; of ICMPv6 all types below 128 are errors. */
static __always_inline bool is_error(__u8 type, enum family family)
{
	return family == FAMILY_IPV4 ? type == 3 || type == 11 || type == 12 : type && type < 128;
}

/* Protocol behind the quoted network header; IPPROTO_NONE: not whole, or a later fragment. */
static __always_inline __u8 read_quoted_network(struct __sk_buff *skb, struct packet *p,
						enum family family)
{
	if (family == FAMILY_IPV4) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, p->quoted_network, &ip, sizeof(ip)) ||
		    ip.version != 4 || ip.ihl < sizeof(ip) / 4 ||
		    ip.frag_off & bpf_htons(IPV4_FRAGMENT))
			return IPPROTO_NONE;
		set_ipv4(&p->quoted.source, ip.saddr);
		set_ipv4(&p->quoted.destination, ip.daddr);
		p->transport = p->quoted_network + ip.ihl * 4;
		return ip.protocol;
	} else {
		struct ipv6hdr ip;
		__u8 header;

		if (bpf_skb_load_bytes(skb, p->quoted_network, &ip, sizeof(ip)) || ip.version != 6)
			return IPPROTO_NONE;
		__builtin_memcpy(&p->quoted.source, &ip.saddr, sizeof(ip.saddr));
		__builtin_memcpy(&p->quoted.destination, &ip.daddr, sizeof(ip.daddr));
		p->transport = p->quoted_network + sizeof(ip);
		header = skip_extensions(skb, p, ip.nexthdr);
		return p->is_later_fragment ? IPPROTO_NONE : header;
	}
}

static __always_inline bool read_quoted_transport(struct __sk_buff *skb, struct packet *p)
{
	__be16 words[QUOTED_TRANSPORT / sizeof(__be16)];
	__u8 protocol = p->quoted.protocol;

	if (p->transport + QUOTED_TRANSPORT > p->network + p->length ||
	    bpf_skb_load_bytes(skb, p->transport, words, sizeof(words)))
		return false;
	p->quoted.source_port = bpf_ntohs(words[0]);
	p->quoted.destination_port = bpf_ntohs(words[1]);
	/* That of TCP is quoted seldom, and only then kept right. */
	p->has_checksum = protocol == PROTOCOL_UDP
				  ? words[UDP_CHECKSUM / sizeof(__be16)] != 0
				  : protocol == PROTOCOL_TCP &&
					    p->transport + TCP_CHECKSUM + sizeof(__be16) <=
						    p->network + p->length;
	return true;
}

/* At p->quoted_network. False: nothing of ours. */
static __always_inline bool read_quoted(struct __sk_buff *skb, struct packet *p, enum family family)
{
	p->quoted.protocol = read_quoted_network(skb, p, family);
	if (p->quoted.protocol != PROTOCOL_TCP && p->quoted.protocol != PROTOCOL_UDP &&
	    p->quoted.protocol != PROTOCOL_SCTP)
		return false;
	return read_quoted_transport(skb, p);
}

/* Global, because what a quoted packet carries is read as well, see geneve/error.h. */
__noinline int fl_read_quoted4(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? read_quoted(skb, p, FAMILY_IPV4) : false;
}

__noinline int fl_read_quoted6(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? read_quoted(skb, p, FAMILY_IPV6) : false;
}

/*
 * False: no error, or it quotes nothing of ours, or was not sent to who sent what it quotes. Then
 * p->quoted.protocol is what it quotes, if anything.
 */
static __always_inline bool read_error(struct __sk_buff *skb, struct packet *p, enum family family)
{
	__u8 type;

	p->icmp = p->transport;
	p->quoted.protocol = PROTOCOL_ANY;
	if (p->icmp + ICMP_HEADER_SIZE > p->network + p->length ||
	    bpf_skb_load_bytes(skb, p->icmp, &type, sizeof(type)) || !is_error(type, family))
		return false;
	p->quoted_network = p->icmp + ICMP_HEADER_SIZE;
	return (family == FAMILY_IPV4 ? fl_read_quoted4(skb) : fl_read_quoted6(skb)) &&
	       is_same_address(&p->quoted.source, &p->wire.destination);
}

__noinline int fl_read_error4(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? read_error(skb, p, FAMILY_IPV4) : false;
}

__noinline int fl_read_error6(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? read_error(skb, p, FAMILY_IPV6) : false;
}

/* --- rewriting ---------------------------------------------------------------------------------
 */

/* Adds a change to a checksum in the packet; returns by how much that changes the sum of all. */
static __always_inline __u64 adjust(struct __sk_buff *skb, __u32 offset, __u64 change, bool is_udp)
{
	__u16 before, after;

	if (bpf_skb_load_bytes(skb, offset, &before, sizeof(before)))
		return 0;
	after = ~fold((__u64)(__u16)~before + change);
	if (is_udp && !after)
		after = 0xffff;
	bpf_skb_store_bytes(skb, offset, &after, sizeof(after), 0);
	return (__u64)(__u16)~before + after;
}

static __always_inline __u32 quoted_address(const struct packet *p, enum side side,
					    enum family family)
{
	if (family == FAMILY_IPV4)
		return p->quoted_network + (side == SIDE_SOURCE ? offsetof(struct iphdr, saddr)
								: offsetof(struct iphdr, daddr));
	return p->quoted_network + (side == SIDE_SOURCE ? offsetof(struct ipv6hdr, saddr)
							: offsetof(struct ipv6hdr, daddr));
}

/* To p->address and p->port. The checksum of the error covers all that is quoted. */
static __always_inline int rewrite_quoted(struct __sk_buff *skb, struct packet *p, enum side side,
					  enum family family)
{
	struct address *from = side == SIDE_SOURCE ? &p->quoted.source : &p->quoted.destination;
	__u16 port_from = side == SIDE_SOURCE ? p->quoted.source_port : p->quoted.destination_port;
	__be16 port = bpf_htons(p->port);
	__u64 address_change, port_change, change;
	__u32 at = quoted_address(p, side, family);
	bool is_udp = p->quoted.protocol == PROTOCOL_UDP;
	int error;

	port_change = (__u64)(__u16)~bpf_htons(port_from) + port;
	if (family == FAMILY_IPV4) {
		address_change = bpf_csum_diff(&from->word[3], 4, &p->address.word[3], 4, 0);
		error = bpf_skb_store_bytes(skb, at, &p->address.word[3], 4, 0);
	} else {
		address_change = bpf_csum_diff(from->word, 16, p->address.word, 16, 0);
		error = bpf_skb_store_bytes(skb, at, p->address.word, 16, 0);
	}
	error |= bpf_skb_store_bytes(skb, p->transport + (side == SIDE_SOURCE ? 0 : 2), &port,
				     sizeof(port), 0);
	change = address_change + port_change;
	if (p->has_checksum)
		change += adjust(skb, p->transport + (is_udp ? UDP_CHECKSUM : TCP_CHECKSUM), change,
				 is_udp);
	if (family == FAMILY_IPV4)
		change += adjust(skb, p->quoted_network + offsetof(struct iphdr, check),
				 address_change, false);
	return error | bpf_l4_csum_replace(skb, p->icmp + ICMP_CHECKSUM, 0, fold(change), 0);
}

#define QUOTED_SIDE(name, side, family)                                                   \
	__noinline int name(struct __sk_buff *skb)                                        \
	{                                                                                 \
		struct packet *p = this_packet();                                         \
                                                                                          \
		return p ? action_of(rewrite_quoted(skb, p, side, family)) : TC_ACT_SHOT; \
	}

QUOTED_SIDE(fl_quoted_src4, SIDE_SOURCE, FAMILY_IPV4)
QUOTED_SIDE(fl_quoted_src6, SIDE_SOURCE, FAMILY_IPV6)
QUOTED_SIDE(fl_quoted_dst4, SIDE_DESTINATION, FAMILY_IPV4)
QUOTED_SIDE(fl_quoted_dst6, SIDE_DESTINATION, FAMILY_IPV6)

static __always_inline int set_quoted(struct __sk_buff *skb, struct packet *p, enum side side,
				      const struct address *a, __u16 port, enum family family)
{
	p->address = *a;
	p->port = port;
	if (side == SIDE_SOURCE)
		return family == FAMILY_IPV4 ? fl_quoted_src4(skb) : fl_quoted_src6(skb);
	return family == FAMILY_IPV4 ? fl_quoted_dst4(skb) : fl_quoted_dst6(skb);
}

#endif
