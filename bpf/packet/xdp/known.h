/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What this CPU has found out about a flow stays known until the second ends: the next hop that its
 * frames leave by, or that they are left to tc. The second is a part of every hash, so that a
 * change of routes, neighbours and devices takes effect with the next one.
 *
 * All that the kernel's tables are asked with is a part of the hash, too. So rules of policy
 * routing, and routes with several next hops, are followed as if each frame asked.
 */
#ifndef FAIRLEAD_XDP_KNOWN_H
#define FAIRLEAD_XDP_KNOWN_H

#include "common/count.h"
#include "packet/headers.h"

#define WAY_BLOCKS 16
#define WAY_SETS   512
#define WAYS	   4
#define HOPS	   256
#define STATIONS   16
#define LOCALS	   256

/* The lower bits of a way are a number: of a hop, from 1; or, above all of these, a reason. */
#define WAY_NUMBER   0xffffULL
#define LEFT_BECAUSE 0x8000

/*
 * Of one block of flows. A way is a hash and a number. A new one takes the first place of its set,
 * and the last one is forgotten.
 */
struct ways {
	__u64 way[WAY_SETS][WAYS];
};

struct hop {
	__u32 second; /* in which it was found: not replaced until that ends */
	__u32 device; /* of the network stack */
	__u8 dmac[ETH_ALEN];
	__u8 smac[ETH_ALEN];
	__u16 mtu;
	__u16 is_vlan; /* frames leave by the device below, with a tag */
};

/* Of a device that frames come in by, as struct device has it. */
struct station {
	__u32 second;
	__u32 ifindex; /* 0: none */
	__u32 came_by; /* the bond, if it is a port of one */
	__u8 mac[ETH_ALEN];
	__u8 pad[2];
};

struct known {
	struct hop hop[HOPS];
	struct station station[STATIONS];
	__u64 local[LOCALS]; /* see local.h; as a way that says why its flow is left */
};

/*
 * Written and read at XDP. Key: a part of the hash. No agent reads it. For 32,768 flows in all, 256
 * KiB: a masqueraded connection has two, and a flow without a place asks the kernel's tables for
 * each packet.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WAY_BLOCKS);
	__type(key, __u32);
	__type(value, struct ways);
} fl_xdp_way SEC(".maps");

/* The hops of these ways, stations, and local frontends. One element. Full: other frames ask each
 * for themselves. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct known);
} fl_xdp_known SEC(".maps");

/* The compiler takes an address for six bytes, which it moves one by one. */
struct mac {
	__u32 first;
	__u16 last;
};

static __always_inline struct mac read_mac(const __u8 *from)
{
	struct mac mac = {.first = *(const __u32 *)from, .last = *(const __u16 *)(from + 4)};

	return mac;
}

static __always_inline void copy_mac(__u8 *to, const __u8 *from)
{
	*(__u32 *)to = *(const __u32 *)from;
	*(__u16 *)(to + 4) = *(const __u16 *)(from + 4);
}

static __always_inline struct known *known(void)
{
	return bpf_map_lookup_elem(&fl_xdp_known, &runtime_key);
}

/* --- ways --------------------------------------------------------------------------------------
 */

/*
 * Of a frame whose flow is not known yet. The highest bit of a word changes two bits of mix(),
 * which the next word can change back: two IPv6 sources may have one hash, with any secret. A rule
 * of policy routing may tell them apart. Their lower halves do that here.
 */
static __always_inline void set_frame_hash(struct packet *p, enum family family)
{
	const struct address *from = &p->wire.source;
	__u64 hash;

	hash = mix(hash_of_now(p, family), (__u64)bpf_ntohl(p->traffic_class) << 32 | p->came_by);
	if (family == FAMILY_IPV6)
		hash = mix(hash, (__u64)from->word[2] << 32 | from->word[3]);
	p->frame_hash = hash;
}

/* Of one whose flow leads there. */
static __always_inline __u64 way_to(const struct packet *p, const struct address *to, __u16 port,
				    enum family family)
{
	return mix(mix_address(p->frame_hash, to, family), port);
}

static __always_inline __u64 *ways_of(const struct packet *p)
{
	__u32 key = p->frame_hash >> 32 & (WAY_BLOCKS - 1);
	struct ways *ways = bpf_map_lookup_elem(&fl_xdp_way, &key);

	return ways ? ways->way[p->frame_hash >> 40 & (WAY_SETS - 1)] : NULL;
}

/* 0: it is not known. */
static __always_inline __u32 number_of(const struct packet *p, __u64 way)
{
	const __u64 *ways = ways_of(p);

	if (!ways)
		return 0;
#pragma clang loop unroll(full)
	for (int i = 0; i < WAYS; i++) {
		if ((ways[i] ^ way) <= WAY_NUMBER)
			return ways[i] & WAY_NUMBER;
	}
	return 0;
}

static __always_inline void know(const struct packet *p, __u64 way, __u32 number)
{
	__u64 *ways = ways_of(p);

	if (!ways)
		return;
#pragma clang loop unroll(full)
	for (int i = WAYS - 1; i > 0; i--)
		ways[i] = ways[i - 1];
	ways[0] = (way & ~WAY_NUMBER) | number;
}

/* --- left --------------------------------------------------------------------------------------
 */

static __always_inline void know_left(const struct packet *p, enum reason reason)
{
	know(p, p->frame_hash, LEFT_BECAUSE | reason);
}

static __always_inline bool is_known_left(const struct packet *p)
{
	__u32 number = number_of(p, p->frame_hash);

	if (!(number & LEFT_BECAUSE))
		return false;
	count_reason(number & (LEFT_BECAUSE - 1));
	return true;
}

/* --- sent --------------------------------------------------------------------------------------
 */

static __always_inline struct hop *hop_of(__u32 number)
{
	struct known *k = known();

	return k ? &k->hop[number & (HOPS - 1)] : NULL;
}

/* In p->route and p->device. NULL: it is not known, or has no room for the packet. */
static __always_inline const struct hop *find_hop(struct packet *p, __u64 way)
{
	__u32 number = number_of(p, way);
	const struct hop *hop = number ? hop_of(number) : NULL;

	if (!hop || p->length > hop->mtu)
		return NULL;
	p->device = hop->device;
	p->route.ifindex = hop->device;
	copy_mac(p->route.dmac, hop->dmac);
	copy_mac(p->route.smac, hop->smac);
	return hop;
}

static __always_inline bool is_same_hop(const struct hop *a, const struct hop *b)
{
	return a->device == b->device && a->mtu == b->mtu && a->is_vlan == b->is_vlan &&
	       !__builtin_memcmp(a->dmac, b->dmac, sizeof(a->dmac)) &&
	       !__builtin_memcmp(a->smac, b->smac, sizeof(a->smac));
}

/* What p->route and p->device are now; the kernel has written the MTU. */
__noinline int fl_know_hop(__u64 way, __u32 is_vlan)
{
	struct packet *p = this_packet();
	struct hop hop = {}, *old;
	__u32 number;

	if (!p)
		return 0;
	hop.second = p->now;
	hop.device = p->device;
	hop.mtu = p->route.mtu_result;
	hop.is_vlan = is_vlan;
	__builtin_memcpy(hop.dmac, p->route.dmac, sizeof(hop.dmac));
	__builtin_memcpy(hop.smac, p->route.smac, sizeof(hop.smac));
	number = hop.device + (hop.dmac[4] << 8 | hop.dmac[5]);
	for (int i = 0; i < WAYS; i++, number++) {
		old = hop_of(number);
		if (old && old->second != p->now)
			*old = hop;
		if (old && is_same_hop(old, &hop)) {
			know(p, way, HOPS | (number & (HOPS - 1)));
			break;
		}
	}
	return 0;
}

#endif
