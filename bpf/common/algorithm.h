/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Balancing algorithms: set -> the member that a new connection gets. All but SET_RANDOM, which
 * select.h has, because nearly every Service uses it and should not pay for the others.
 */
#ifndef FAIRLEAD_ALGORITHM_H
#define FAIRLEAD_ALGORITHM_H

#include "common/least.h"

static __always_inline struct turn *turn_of(__u32 first_block)
{
	__u32 key = first_block % TURNS;

	return bpf_map_lookup_elem(&fl_turn, &key);
}

/*
 * The slot after the one that this CPU took last. The first one is random: else the first clients
 * of all CPUs would get the same backend.
 */
static __always_inline __u32 next_slot(__u32 first_block, __u32 entries, __u32 number)
{
	const struct turn *turn = turn_of(first_block);

	if (!turn)
		return 1;
	if (turn->block != first_block || !turn->slot)
		return slot_by(number, entries);
	return turn->slot < entries ? turn->slot + 1 : 1;
}

/* The slot, if it is not 0, is used up: the next choice is the one behind it. Global, see
 * backend.h.
 */
__noinline int fl_take_turn(__u32 first_block, __u32 slot)
{
	struct turn *turn = turn_of(first_block);

	if (!turn || !slot)
		return 0;
	turn->block = first_block;
	turn->slot = slot;
	return 0;
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

static __always_inline bool has_hash(__u32 kind)
{
	return kind == SET_SOURCE_HASH || kind == SET_MAGLEV;
}

/*
 * Of an entry of a table, used if has_hash(). The addresses in halves, as for fl_range_of. `rest`,
 * from the lowest bit: port of the frontend, port of the client (16 each), protocol, kind of the
 * set (8 each), and whether there is session affinity, whether the request is a packet.
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
	if (!is_flow)
		return bpf_get_prandom_u32();
	rest &= has_affinity ? 0xff0000ffff : 0xffffffffff;
	return mix_halves(mix_halves(rest, from_high, from_low), to_high, to_low) >> 32;
}

static __always_inline bool takes_turns(__u32 kind)
{
	return kind == SET_ROUND_ROBIN || kind == SET_WEIGHTED_ROUND_ROBIN;
}

/*
 * A member of the set, by the algorithm of its kind and a number, of fl_hash or random; 0 if there
 * is none. In the upper half, if the set takes turns: the slot, for fl_take_turn(). Global, see
 * backend.h.
 */
__noinline __u64 fl_member_by(__u32 kind, __u32 first_block, __u32 members, __u32 number)
{
	__u32 run = first_block, entries = members, slot;

	if (kind == SET_LEAST_CONNECTIONS || kind == SET_WEIGHTED_LEAST_CONNECTIONS)
		return least_member(kind, first_block, members, number);
	if (kind != SET_ROUND_ROBIN) {
		run = table_block(first_block, members);
		entries = fl_slot_of_run(run, 0);
	}
	if (takes_turns(kind)) {
		slot = next_slot(first_block, entries, number);
		return (__u64)slot << 32 | fl_slot_of_run(run, slot);
	}
	return fl_slot_of_run(run, slot_by(number, entries));
}

#endif
