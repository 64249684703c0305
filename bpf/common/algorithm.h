/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Balancing algorithms: set -> the member that a new connection gets. All but SET_RANDOM, which
 * backend.h has, because nearly every Service uses it and should not pay for the others.
 */
#ifndef FAIRLEAD_ALGORITHM_H
#define FAIRLEAD_ALGORITHM_H

#include "common/backend.h"

/* Slot `number` of the run; 0 if there is no such block. */
static __always_inline __u32 slot_of_run(__u32 first_block, __u32 number)
{
	const struct slot_block *block = block_at(first_block + number / SLOTS_PER_BLOCK);

	return block ? block->slot[number % SLOTS_PER_BLOCK] : 0;
}

/* The table's run begins in a block of its own, behind the members. */
static __always_inline __u32 table_block(__u32 first_block, __u32 members)
{
	return first_block + members / SLOTS_PER_BLOCK + 1;
}

static __always_inline __u32 random_slot(__u32 entries)
{
	return 1 + (((__u64)bpf_get_prandom_u32() * entries) >> 32);
}

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
 * A member of the set, by the algorithm of its kind; 0 if there is none. Global, see backend.h.
 */
__noinline __u32 fl_member_by(__u32 kind, __u32 first_block, __u32 members)
{
	__u32 run = first_block, entries = members, slot;

	if (kind != SET_ROUND_ROBIN) {
		run = table_block(first_block, members);
		entries = slot_of_run(run, 0);
	}
	if (kind == SET_WEIGHTED_RANDOM)
		slot = random_slot(entries);
	else
		slot = next_slot(first_block, entries);
	return slot_of_run(run, slot);
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

/*
 * A member of a SET_SOURCE_HASH; 0 if there is none. The source in two halves, as for fl_range_of.
 */
__noinline __u32 fl_member_by_source(__u32 first_block, __u32 members, __u64 high, __u64 low)
{
	__u32 table = table_block(first_block, members);
	__u32 entries = slot_of_run(table, 0);

	return slot_of_run(table, 1 + (((__u64)hash_address(high, low) * entries) >> 32));
}

#endif
