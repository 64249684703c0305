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

static __always_inline __u32 random_slot(__u32 entries)
{
	return 1 + (((__u64)bpf_get_prandom_u32() * entries) >> 32);
}

#endif
