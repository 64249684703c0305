/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What has been done to the table, counted on each CPU apart: the agent adds them up, and knows how
 * full the table is without a system call.
 */
#ifndef FAIRLEAD_CONN_COUNT_H
#define FAIRLEAD_CONN_COUNT_H

#include "packet/conn/maps.h"

static __always_inline struct conn_counts *conn_counts(enum family family)
{
	__u32 index = 2 * bpf_get_smp_processor_id() + (family == FAMILY_IPV6);

	return bpf_map_lookup_elem(&fl_conn_count, &index);
}

/* Nothing is lost if a packet interrupts the sweep on this CPU. No other CPU has the line. */
#define COUNT_CONN(what, family)                                   \
	do {                                                       \
		struct conn_counts *counts_ = conn_counts(family); \
                                                                   \
		if (counts_)                                       \
			__sync_fetch_and_add(&counts_->what, 1);   \
	} while (0)

static __always_inline void count_claim(__u32 word, enum family family)
{
	COUNT_CONN(claimed, family);
	if (word & CONN_HALF)
		COUNT_CONN(half_claimed, family);
}

static __always_inline void count_release(__u32 word, enum family family)
{
	COUNT_CONN(released, family);
	if (word & CONN_HALF)
		COUNT_CONN(half_gone, family);
}

#endif
