/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* All updates of counters. Counters only grow. */
#ifndef FAIRLEAD_COUNT_H
#define FAIRLEAD_COUNT_H

#include "common/select.h"

/* A function also because its parameter puts the names of the reasons into the BTF. */
static __noinline void count_reason(enum reason reason)
{
	__u32 key = reason;
	__u64 *calls = bpf_map_lookup_elem(&fl_reason, &key);

	if (calls)
		__sync_fetch_and_add(calls, 1); /* another task's hook may preempt this one */
}

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

/* Of a selection. */
static __always_inline void count_choice(const struct choice *c)
{
	__u32 id = c->frontend_id;
	struct frontend_stat *stat;

	count_reason(c->reason);
	if (c->verdict == VERDICT_LEAVE)
		return;
	stat = bpf_map_lookup_elem(&fl_fe_stat, &id);
	if (!stat)
		return;
	if (c->verdict == VERDICT_REFUSE) {
		__sync_fetch_and_add(&stat->refused, 1);
	} else if (c->verdict == VERDICT_DROP) {
		__sync_fetch_and_add(&stat->dropped, 1);
	} else if (!c->is_kept) {
		__sync_fetch_and_add(&stat->connections, 1);
		if (c->by_affinity)
			__sync_fetch_and_add(&stat->affinity_hits, 1);
	}
}

#endif
