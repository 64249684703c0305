/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Balancing algorithms: set -> the member that a new connection gets. All but SET_RANDOM, which
 * backend.h has, because nearly every Service uses it and should not pay for the others.
 */
#ifndef FAIRLEAD_ALGORITHM_H
#define FAIRLEAD_ALGORITHM_H

#include "common/least.h"

/*
 * The slot after the one that this CPU chose last. The first one is random: else the first clients
 * of all CPUs would get the same backend.
 */
static __always_inline __u32 next_slot(__u32 first_block, __u32 entries)
{
	__u32 key = first_block % TURNS;
	struct turn *turn = bpf_map_lookup_elem(&fl_turn, &key);
	__u32 slot;

	if (!turn)
		return 1;
	slot = turn->slot;
	if (turn->block != first_block || !slot)
		slot = random_slot(entries);
	else
		slot = slot < entries ? slot + 1 : 1;
	turn->block = first_block;
	turn->slot = slot;
	return slot;
}

/*
 * Without a secret: every node has the same table, and shall choose the same backend. The constants
 * are those of murmur3's finalizer.
 */
static __always_inline __u32 hash_address(__u64 high, __u64 low)
{
	__u64 hash = (high ^ (high >> 32)) * 0x9e3779b97f4a7c15ULL + low;

	hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdULL;
	hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53ULL;
	return hash >> 32;
}

static __always_inline __u64 mix_halves(__u64 hash, __u64 high, __u64 low)
{
	hash += high;
	hash = (hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15ULL + low;
	hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdULL;
	hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53ULL;
	return hash ^ (hash >> 33);
}

/*
 * Of an entry of a table. The addresses in halves, as for fl_range_of. `rest`, from the lowest bit:
 * port of the frontend, port of the client (16 each), protocol, kind of the set (8 each), and
 * whether there is session affinity, whether the request is a packet. Kinds without a hash get any
 * number.
 *
 * By Maglev a flow has the same on every node: src/plan/maglev/hash.ts has the same, for people who
 * ask where it goes. With session affinity a client's connections are one flow. Without it a socket
 * that has no port yet gets any entry: it keeps its backend, and no other node sees its packets.
 */
__noinline __u32 fl_hash(__u64 from_high, __u64 from_low, __u64 to_high, __u64 to_low, __u64 rest)
{
	bool has_affinity = rest >> 48 & 1, is_packet = rest >> 49 & 1;
	bool is_bound = from_high != NETNS_SOURCE && (rest & 0xffff0000);
	bool is_flow = has_affinity || is_packet || is_bound;
	__u8 kind = rest >> 40;

	if (kind == SET_SOURCE_HASH)
		return hash_address(from_high, from_low);
	if (kind != SET_MAGLEV || !is_flow)
		return bpf_get_prandom_u32();
	rest &= has_affinity ? 0xff0000ffff : 0xffffffffff;
	return mix_halves(mix_halves(rest, from_high, from_low), to_high, to_low) >> 32;
}

/*
 * A member of the set, by the algorithm of its kind and the number of fl_hash; 0 if there is none.
 * Global, see backend.h.
 */
__noinline __u32 fl_member_by(__u32 kind, __u32 first_block, __u32 members, __u32 hash)
{
	__u32 run = first_block, entries = members, slot;

	if (kind == SET_LEAST_CONNECTIONS || kind == SET_WEIGHTED_LEAST_CONNECTIONS)
		return least_member(kind, first_block, members);
	if (kind != SET_ROUND_ROBIN) {
		run = table_block(first_block, members);
		entries = fl_slot_of_run(run, 0);
	}
	if (kind == SET_ROUND_ROBIN || kind == SET_WEIGHTED_ROUND_ROBIN)
		slot = next_slot(first_block, entries);
	else
		slot = 1 + (((__u64)hash * entries) >> 32);
	return fl_slot_of_run(run, slot);
}

#endif
