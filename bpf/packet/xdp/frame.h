/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames with plain packets: TCP or UDP right behind an IP header without options or extension
 * headers, no fragment. They are read here and, when all is decided, written.
 */
#ifndef FAIRLEAD_XDP_FRAME_H
#define FAIRLEAD_XDP_FRAME_H

#include "packet/headers.h"
#include "packet/sum.h"
#include "packet/xdp/known.h"

union transport {
	struct udphdr udp;
	struct tcphdr tcp;
};

struct plain_packet4 {
	struct iphdr ip;
	union transport to;
};

struct plain_packet6 {
	struct ipv6hdr ip;
	union transport to;
};

/* All but the rest of a TCP header, which not every packet has. */
#define SHORTEST4 (sizeof(struct iphdr) + sizeof(struct udphdr))
#define SHORTEST6 (sizeof(struct ipv6hdr) + sizeof(struct udphdr))

static __always_inline bool ends_before(struct xdp_md *ctx, const void *at)
{
	return (const __u8 *)at > (const __u8 *)(long)ctx->data_end;
}

/* --- reading -----------------------------------------------------------------------------------
 */

/* Of the transport header, which `length` bytes are from. */
static __always_inline bool read_transport(struct xdp_md *ctx, struct packet *p,
					   const union transport *t, __u8 protocol, __u32 length)
{
	if (protocol == IPPROTO_TCP) {
		if (ends_before(ctx, &t->tcp + 1) || length < sizeof(t->tcp) ||
		    !parse_plain_tcp(p, &t->tcp))
			return false;
	} else {
		if (protocol != IPPROTO_UDP || length < sizeof(t->udp))
			return false;
		p->tcp_flags = 0;
		p->syn = 0;
		p->has_checksum = t->udp.check != 0;
	}
	p->wire.protocol = protocol;
	p->wire.source_port = bpf_ntohs(t->udp.source);
	p->wire.destination_port = bpf_ntohs(t->udp.dest);
	p->is_fragment = false;
	p->is_later_fragment = false;
	return true;
}

/*
 * Of a header without options, whose bytes are there. A router must not send others on (RFC 1812);
 * the stack drops them.
 */
static __always_inline bool is_intact(struct xdp_md *ctx, enum family family)
{
	const __be32 *word = (const void *)(long)ctx->data + ETH_HLEN;

	if (family == FAMILY_IPV6)
		return true;
	if (ends_before(ctx, (const __u8 *)word + sizeof(struct iphdr)))
		return false;
	return fold((__u64)word[0] + word[1] + word[2] + word[3] + word[4]) == 0xffff;
}

/* Fills struct packet. False: this is no plain packet. */
static __always_inline bool read_frame4(struct xdp_md *ctx, struct packet *p)
{
	const struct plain_packet4 *f = (const void *)(long)ctx->data + ETH_HLEN;
	__u32 length;

	if (ends_before(ctx, (const __u8 *)f + SHORTEST4) ||
	    *((const __u8 *)&f->ip) != PLAIN_IPV4 ||
	    f->ip.frag_off & bpf_htons(IPV4_MORE_FRAGMENTS | IPV4_FRAGMENT))
		return false;
	length = bpf_ntohs(f->ip.tot_len);
	if (length > ctx->data_end - ctx->data - ETH_HLEN || length < sizeof(f->ip) ||
	    !read_transport(ctx, p, &f->to, f->ip.protocol, length - sizeof(f->ip)))
		return false;
	set_ipv4(&p->wire.source, f->ip.saddr);
	set_ipv4(&p->wire.destination, f->ip.daddr);
	p->length = length;
	p->hops = f->ip.ttl;
	p->traffic_class = f->ip.tos;
	return true;
}

/* A checksum of UDP is needed over IPv6. */
static __always_inline bool read_frame6(struct xdp_md *ctx, struct packet *p)
{
	const struct plain_packet6 *f = (const void *)(long)ctx->data + ETH_HLEN;
	__u32 payload;

	if (ends_before(ctx, (const __u8 *)f + SHORTEST6) || f->ip.version != 6)
		return false;
	payload = bpf_ntohs(f->ip.payload_len);
	if (payload > ctx->data_end - ctx->data - ETH_HLEN - sizeof(f->ip) ||
	    !read_transport(ctx, p, &f->to, f->ip.nexthdr, payload) || !p->has_checksum)
		return false;
	__builtin_memcpy(&p->wire.source, &f->ip.saddr, sizeof(f->ip.saddr));
	__builtin_memcpy(&p->wire.destination, &f->ip.daddr, sizeof(f->ip.daddr));
	p->length = sizeof(f->ip) + payload;
	p->hops = f->ip.hop_limit;
	p->traffic_class = *(const __be32 *)&f->ip & bpf_htonl(0x0fffffff);
	return true;
}

/* --- writing -----------------------------------------------------------------------------------
 */

/* Adds the change of a word to the sum of changes. */
static __always_inline __u64 changed(__be32 *word, __be32 to)
{
	__be32 from = *word;

	*word = to;
	return (__u64)(__u32)~from + to;
}

static __always_inline __u64 port_changed(__be16 *port, __u16 to)
{
	__be16 from = *port;

	*port = bpf_htons(to);
	return (__u64)(__u16)~from + *port;
}

static __always_inline void add_change(__u16 *checksum, __u64 change)
{
	*checksum = ~fold((__u64)(__u16) ~*checksum + change);
}

/* With the change of the addresses. False: the frame has no such header any more. */
static __always_inline bool write_transport(struct xdp_md *ctx, const struct packet *p,
					    union transport *t, __u64 change)
{
	change += port_changed(&t->udp.source, p->wire.source_port);
	change += port_changed(&t->udp.dest, p->wire.destination_port);
	if (p->wire.protocol == PROTOCOL_TCP) {
		if (ends_before(ctx, &t->tcp + 1))
			return false;
		add_change(&t->tcp.check, change);
	} else if (p->has_checksum) {
		add_change(&t->udp.check, change);
		/* 0 says that there is none. */
		if (!t->udp.check)
			t->udp.check = 0xffff;
	}
	return true;
}

static __always_inline bool write_frame4(struct xdp_md *ctx, const struct packet *p)
{
	struct plain_packet4 *f = (void *)(long)ctx->data + ETH_HLEN;
	__u16 *hops = (__u16 *)&f->ip.ttl; /* and the protocol */
	__u16 before;
	__u64 change;

	if (ends_before(ctx, (const __u8 *)f + SHORTEST4))
		return false;
	change = changed(&f->ip.saddr, p->wire.source.word[3]);
	change += changed(&f->ip.daddr, p->wire.destination.word[3]);
	if (!write_transport(ctx, p, &f->to, change))
		return false;
	before = *hops;
	f->ip.ttl -= 1;
	change += (__u64)(__u16)~before + *hops;
	add_change(&f->ip.check, change);
	return true;
}

static __always_inline bool write_frame6(struct xdp_md *ctx, const struct packet *p)
{
	struct plain_packet6 *f = (void *)(long)ctx->data + ETH_HLEN;
	__u64 change = 0;

	if (ends_before(ctx, (const __u8 *)f + SHORTEST6))
		return false;
#pragma clang loop unroll(full)
	for (int i = 0; i < 4; i++) {
		change += changed(&f->ip.saddr.in6_u.u6_addr32[i], p->wire.source.word[i]);
		change += changed(&f->ip.daddr.in6_u.u6_addr32[i], p->wire.destination.word[i]);
	}
	if (!write_transport(ctx, p, &f->to, change))
		return false;
	f->ip.hop_limit -= 1;
	return true;
}

/* To the next station of p->route. */
static __always_inline bool write_ethernet(struct xdp_md *ctx, const struct packet *p)
{
	struct ethhdr *eth = (void *)(long)ctx->data;

	if (ends_before(ctx, eth + 1))
		return false;
	copy_mac(eth->h_dest, p->route.dmac);
	copy_mac(eth->h_source, p->route.smac);
	return true;
}

#endif
