/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Runs of slots: the members of a set, and the table behind them. See struct traffic_rule. */
#ifndef FAIRLEAD_RUN_H
#define FAIRLEAD_RUN_H

#include "common/backend.h"

/* Slot `number` of the run; 0 if there is no such block. Global, see backend.h. */
__noinline __u32 fl_slot_of_run(__u32 first_block, __u32 number)
{
	const struct slot_block *block = block_at(first_block + number / SLOTS_PER_BLOCK);

	return block ? block->slot[number % SLOTS_PER_BLOCK] : 0;
}

/* The table's run begins in a block of its own, behind the members. */
static __always_inline __u32 table_block(__u32 first_block, __u32 members)
{
	return first_block + members / SLOTS_PER_BLOCK + 1;
}

/* All are equally likely to within entries / 2^32: multiply and shift instead of a division. */
static __always_inline __u32 slot_by(__u32 number, __u32 entries)
{
	return 1 + (((__u64)number * entries) >> 32);
}

/* The nth number that follows from this one, as good as random to it: murmur3's finalizer. */
static __always_inline __u32 number_after(__u32 number, __u32 n)
{
	number += n * 0x9e3779b9u;
	number = (number ^ (number >> 16)) * 0x85ebca6bu;
	number = (number ^ (number >> 13)) * 0xc2b2ae35u;
	return number ^ (number >> 16);
}

/*
 * The number of a request, any if it has none; for a second attempt another one, as the first has
 * led to a backend that is gone. Global, see backend.h.
 */
__noinline __u32 fl_number(__u32 number, __u32 is_first)
{
	if (!number)
		return bpf_get_prandom_u32();
	return is_first ? number : number_after(number, 0);
}

#endif
