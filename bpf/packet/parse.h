/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From the bytes of a packet to struct packet. What contradicts itself is counted and left to the
 * kernel, which drops it: nothing is translated by headers that may not be there.
 */
#ifndef FAIRLEAD_PARSE_H
#define FAIRLEAD_PARSE_H

#include "common/count.h"
#include "packet/headers.h"

/*
 * What packets of a device begin with. A compile-time constant. LINK_TUNNEL: nothing, or what the
 * kernel still shows of the headers that a tunnel device has taken off.
 */
enum link { LINK_ETHERNET, LINK_NONE, LINK_TUNNEL } PACKED_ENUM;

enum parsed {
	PARSED_OTHER = 0, /* nothing of ours */
	PARSED_FLOW = 1,
	PARSED_ICMP = 2,
} PACKED_ENUM;

#define EXTENSION_HEADERS   6
#define SCTP_HEADER_SIZE    12
#define ICMP_HEADER_SIZE    8

#define IPV6_MORE_FRAGMENTS 0x0001
#define IPV6_FRAGMENT	    0xfff8

static __always_inline enum parsed malformed(enum reason reason)
{
	count_reason(reason);
	return PARSED_OTHER;
}

/* The beginning of a network header of either family. */
union network_head {
	struct iphdr ip4;
	__u32 word[5];
};

static __always_inline bool has_head_at(struct __sk_buff *skb, __u32 offset,
					const union network_head *head)
{
	union network_head found;
	__u32 difference = 0;

	if (bpf_skb_load_bytes(skb, offset, &found, sizeof(found)))
		return false;
	for (int i = 0; i < 5; i++)
		difference |= found.word[i] ^ head->word[i];
	return !difference;
}

/*
 * Offset of the network header. The kernel knows it, but does not tell: a packet of an ipip device
 * before Linux 5.14, and of some gre devices after that, has its outer headers before it. The
 * packet then ends where the data does.
 */
static __always_inline __u32 skip_outer_headers(struct __sk_buff *skb)
{
	union network_head head;
	__u32 length, offset;

	if (bpf_skb_load_bytes_relative(skb, 0, &head, sizeof(head), BPF_HDR_START_NET) ||
	    has_head_at(skb, 0, &head))
		return 0;
	/* The length of an IPv6 packet's payload has the place of the IPv4 packet's id. */
	length = head.ip4.version == 4 ? bpf_ntohs(head.ip4.tot_len)
				       : sizeof(struct ipv6hdr) + bpf_ntohs(head.ip4.id);
	offset = skb->len - length;
	return offset < skb->len && has_head_at(skb, offset, &head) ? offset : 0;
}

/* --- transport ---------------------------------------------------------------------------------
 */

static __always_inline __u32 header_size(__u8 protocol)
{
	switch (protocol) {
	case PROTOCOL_TCP:
		return sizeof(struct tcphdr);
	case PROTOCOL_UDP:
		return sizeof(struct udphdr);
	case PROTOCOL_SCTP:
		return SCTP_HEADER_SIZE;
	default:
		return ICMP_HEADER_SIZE;
	}
}

static __always_inline enum parsed parse_tcp(struct __sk_buff *skb, struct packet *p)
{
	struct tcphdr tcp;

	if (bpf_skb_load_bytes(skb, p->transport, &tcp, sizeof(tcp)))
		return malformed(REASON_TRUNCATED_HEADER);
	if (tcp.doff < sizeof(tcp) / 4)
		return malformed(REASON_BAD_HEADER);
	p->wire.source_port = bpf_ntohs(tcp.source);
	p->wire.destination_port = bpf_ntohs(tcp.dest);
	read_tcp(p, &tcp);
	return PARSED_FLOW;
}

/* Of which the CRC does not cover the addresses. */
struct sctp_head {
	__be16 source;
	__be16 destination;
	__be32 tag;
	__be32 crc;
	__u8 chunk; /* the first one's type */
};

static __always_inline enum parsed parse_sctp(struct __sk_buff *skb, struct packet *p)
{
	struct sctp_head sctp;

	/* What has no chunk says nothing, and is dropped by who gets it. */
	if (p->transport + SCTP_HEADER_SIZE + 1 > p->network + p->length ||
	    bpf_skb_load_bytes(skb, p->transport, &sctp, SCTP_HEADER_SIZE + 1))
		return malformed(REASON_TRUNCATED_HEADER);
	p->wire.source_port = bpf_ntohs(sctp.source);
	p->wire.destination_port = bpf_ntohs(sctp.destination);
	p->progress = sctp.tag;
	p->chunk = chunk_of(sctp.chunk);
	return PARSED_FLOW;
}

static __always_inline enum parsed parse_udp(struct __sk_buff *skb, struct packet *p)
{
	struct udphdr udp;

	if (bpf_skb_load_bytes(skb, p->transport, &udp, sizeof(udp)))
		return malformed(REASON_TRUNCATED_HEADER);
	p->wire.source_port = bpf_ntohs(udp.source);
	p->wire.destination_port = bpf_ntohs(udp.dest);
	p->has_checksum = udp.check != 0;
	return PARSED_FLOW;
}

static __always_inline enum parsed parse_transport(struct __sk_buff *skb, struct packet *p,
						   __u8 protocol)
{
	if (protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP && protocol != PROTOCOL_SCTP)
		return PARSED_OTHER;
	p->wire.protocol = protocol;
	p->wire.source_port = 0;
	p->wire.destination_port = 0;
	p->tcp_flags = 0;
	p->syn = 0;
	p->chunk = SCTP_DATA;
	p->has_checksum = false;
	if (p->is_later_fragment)
		return PARSED_FLOW;
	if (p->transport + header_size(protocol) > p->network + p->length)
		return malformed(REASON_TRUNCATED_HEADER);
	if (protocol == PROTOCOL_TCP)
		return parse_tcp(skb, p);
	return protocol == PROTOCOL_UDP ? parse_udp(skb, p) : parse_sctp(skb, p);
}

/* An error is never fragmented: it quotes no more than fits. */
static __always_inline enum parsed parse_icmp(struct packet *p, __u8 protocol)
{
	p->wire.protocol = protocol;
	p->wire.source_port = 0;
	p->wire.destination_port = 0;
	return p->is_fragment ? PARSED_OTHER : PARSED_ICMP;
}

/* --- IPv4 --------------------------------------------------------------------------------------
 */

/* 0 is the length of a packet of more than 64 KiB that the kernel has put together. */
static __always_inline bool set_length(const struct __sk_buff *skb, struct packet *p, __u32 length)
{
	__u32 whole = skb->len - p->network;

	p->length = length ? length : whole;
	return p->length <= whole;
}

__noinline int fl_parse4(struct __sk_buff *skb, __u32 network)
{
	struct packet *p = this_packet();
	__u16 fragment;
	struct iphdr ip;

	if (!p)
		return PARSED_OTHER;
	if (bpf_skb_load_bytes(skb, network, &ip, sizeof(ip)))
		return malformed(REASON_TRUNCATED_HEADER);
	p->network = network;
	p->transport = network + ip.ihl * 4;
	if (ip.version != 4 || ip.ihl < sizeof(ip) / 4)
		return malformed(REASON_BAD_HEADER);
	if (!set_length(skb, p, bpf_ntohs(ip.tot_len)))
		return malformed(REASON_TRUNCATED_HEADER);
	if (p->length < ip.ihl * 4)
		return malformed(REASON_BAD_HEADER);
	set_ipv4(&p->wire.source, ip.saddr);
	set_ipv4(&p->wire.destination, ip.daddr);
	fragment = bpf_ntohs(ip.frag_off);
	p->fragment_id = ip.id;
	p->is_fragment = (fragment & (IPV4_MORE_FRAGMENTS | IPV4_FRAGMENT)) != 0;
	p->is_later_fragment = (fragment & IPV4_FRAGMENT) != 0;
	if (ip.protocol == IPPROTO_ICMP)
		return parse_icmp(p, ip.protocol);
	return parse_transport(skb, p, ip.protocol);
}

/* --- IPv6 --------------------------------------------------------------------------------------
 */

/* Any extension header begins with these; the rest is a fragment header's. */
struct extension {
	__u8 next;
	__u8 length;
	__be16 fragment;
	__be32 id;
};

/* What is behind AH is authentic only as it came: it is left, as by XDP and as that of IPv4. */
static __always_inline bool is_extension(__u8 header)
{
	return header == IPPROTO_HOPOPTS || header == IPPROTO_ROUTING ||
	       header == IPPROTO_DSTOPTS || header == IPPROTO_FRAGMENT;
}

static __always_inline __u32 extension_size(__u8 header, const struct extension *e)
{
	return header == IPPROTO_FRAGMENT ? sizeof(*e) : (e->length + 1) * 8;
}

/*
 * Type of the header behind all extension headers, IPPROTO_NONE if it cannot be found. Stops at the
 * header of a later fragment, behind which is data.
 */
static __always_inline __u8 skip_extensions(struct __sk_buff *skb, struct packet *p, __u8 header)
{
	struct extension e;

	for (int i = 0; i < EXTENSION_HEADERS; i++) {
		if (!is_extension(header))
			return header;
		if (p->transport + sizeof(e) > p->network + p->length ||
		    bpf_skb_load_bytes(skb, p->transport, &e, sizeof(e))) {
			count_reason(REASON_TRUNCATED_HEADER);
			return IPPROTO_NONE;
		}
		p->transport += extension_size(header, &e);
		if (header == IPPROTO_FRAGMENT) {
			p->is_fragment =
				(e.fragment & bpf_htons(IPV6_FRAGMENT | IPV6_MORE_FRAGMENTS)) != 0;
			p->is_later_fragment = (e.fragment & bpf_htons(IPV6_FRAGMENT)) != 0;
			p->fragment_id = e.id;
		}
		header = e.next;
		if (p->is_later_fragment)
			return header;
	}
	if (!is_extension(header))
		return header;
	count_reason(REASON_TOO_MANY_HEADERS);
	return IPPROTO_NONE;
}

/*
 * The stack drops v4-mapped addresses on the wire, but behind these programs, to which they would
 * be those of IPv4. A source that stands for a socket would have, and change, its session affinity.
 */
static __always_inline bool stands_for_other(const struct packet *p)
{
	/* Most begin with more. */
	if (likely(p->wire.source.byte[0] > 1 && p->wire.destination.byte[0]))
		return false;
	return is_mapped(&p->wire.source) || is_mapped(&p->wire.destination) ||
	       is_netns_source(&p->wire.source);
}

__noinline int fl_parse6(struct __sk_buff *skb, __u32 network)
{
	struct packet *p = this_packet();
	struct ipv6hdr ip;
	__u32 payload;
	__u8 header;

	if (!p)
		return PARSED_OTHER;
	if (bpf_skb_load_bytes(skb, network, &ip, sizeof(ip)))
		return malformed(REASON_TRUNCATED_HEADER);
	if (ip.version != 6)
		return malformed(REASON_BAD_HEADER);
	p->network = network;
	p->transport = network + sizeof(ip);
	payload = bpf_ntohs(ip.payload_len);
	if (!set_length(skb, p, payload ? sizeof(ip) + payload : 0))
		return malformed(REASON_TRUNCATED_HEADER);
	__builtin_memcpy(&p->wire.source, &ip.saddr, sizeof(ip.saddr));
	__builtin_memcpy(&p->wire.destination, &ip.daddr, sizeof(ip.daddr));
	if (stands_for_other(p))
		return PARSED_OTHER;
	p->is_fragment = false;
	p->is_later_fragment = false;
	header = skip_extensions(skb, p, ip.nexthdr);
	if (header == IPPROTO_ICMPV6)
		return parse_icmp(p, header);
	return parse_transport(skb, p, header);
}

/* Family of the packet, 0: leave it, as what is not IP. Fills struct packet. */
static __always_inline __u8 parse(struct __sk_buff *skb, enum link link, enum parsed *parsed)
{
	__u32 network = link == LINK_ETHERNET ? ETH_HLEN : 0;

	if (link == LINK_TUNNEL)
		network = skip_outer_headers(skb);
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		*parsed = fl_parse4(skb, network);
		return FAMILY_IPV4;
	}
	if (with_ipv6 && skb->protocol == bpf_htons(ETH_P_IPV6)) {
		*parsed = fl_parse6(skb, network);
		return FAMILY_IPV6;
	}
	return 0;
}

#endif
