/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The only place where counters are touched. They only ever grow. */
#ifndef FAIRLEAD_COUNT_H
#define FAIRLEAD_COUNT_H

#include "maps.h"

static __always_inline void count_reason(__u32 reason)
{
	__u64 *calls = bpf_map_lookup_elem(&fl_reason, &reason);

	if (calls)
		__sync_fetch_and_add(calls, 1); /* a hook can be preempted by another task's */
}

#define COUNT_FRONTEND(frontend_id, counter)                                          \
	do {                                                                          \
		__u32 id_ = (frontend_id);                                            \
		struct frontend_stat *stat_ = bpf_map_lookup_elem(&fl_fe_stat, &id_); \
		if (stat_)                                                            \
			__sync_fetch_and_add(&stat_->counter, 1);                     \
	} while (0)

static __always_inline void count_opened(__u32 backend_id)
{
	struct backend_stat *stat = bpf_map_lookup_elem(&fl_be_stat, &backend_id);

	if (stat)
		__sync_fetch_and_add(&stat->connections, 1);
}

static __always_inline void count_closed(__u32 backend_id)
{
	struct backend_stat *stat = bpf_map_lookup_elem(&fl_be_stat, &backend_id);

	if (stat)
		__sync_fetch_and_add(&stat->closed, 1);
}

#endif
