/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Least connections: set -> the member that has the fewest connections and flows on this node, for
 * its weight. Of few members all are asked, of more two that are chosen at random: that is nearly
 * as good as the least of all, and two CPUs at once seldom choose the same ones.
 */
#ifndef FAIRLEAD_LEAST_H
#define FAIRLEAD_LEAST_H

#include "common/run.h"

/* Up to so many members all are asked. */
#define FEW_MEMBERS 8

/*
 * What the backend has now: open sockets, and living flows of packets. Counted before made: of a
 * connection between the two reads the end alone must not be seen.
 */
static __always_inline __u32 live_of(__u32 id)
{
	struct backend_stat *stat = bpf_map_lookup_elem(&fl_be_stat, &id);
	struct backend_flows *flows = bpf_map_lookup_elem(&fl_be_flows, &id);
	__s64 live;

	if (!stat || !flows)
		return 0;
	live = -*(volatile __u64 *)&stat->closed;
	live += *(volatile __u64 *)&stat->connections;
	live += (__s64)flows->older + flows->newer;
	return live > 0 ? live : 0;
}

static __always_inline __u32 entry_id(__u32 kind, __u32 run, __u32 entry)
{
	return fl_slot_of_run(run,
			      1 + (kind == SET_WEIGHTED_LEAST_CONNECTIONS ? 2 * entry : entry));
}

static __always_inline __u32 entry_weight(__u32 kind, __u32 run, __u32 entry)
{
	return kind == SET_WEIGHTED_LEAST_CONNECTIONS ? fl_slot_of_run(run, 2 + 2 * entry) : 1;
}

/* The best entry so far in the upper half, in the lower one the weights of all that are as good. */
static __always_inline __u64 best_of(__u32 entry, __u32 tied)
{
	return (__u64)entry << 32 | tied;
}

/* What a choice goes by: the kind of the set, in the upper half the number, see struct request. */
static __always_inline __u64 choosing_by(__u32 kind, __u32 number)
{
	return (__u64)number << 32 | kind;
}

/*
 * The better of the best so far and another entry, if there is that one. Of several that are
 * equally good each is taken with a probability in proportion to its weight. Global, see backend.h:
 * else the verifier would follow every order that eight members can have.
 */
__noinline __u64 fl_better(__u64 by, __u32 run, __u32 entries, __u64 best, __u32 other)
{
	__u32 kind = by, number = number_after(by >> 32, 1 + other);
	__u64 own, least;
	__u32 weight, tied;

	if (other >= entries)
		return best;
	own = live_of(entry_id(kind, run, other));
	least = live_of(entry_id(kind, run, best >> 32));
	own *= entry_weight(kind, run, best >> 32);
	weight = entry_weight(kind, run, other);
	least *= weight;
	if (own > least)
		return best;
	if (own < least)
		return best_of(other, weight);
	tied = best + weight;
	return best_of(((__u64)number * tied) >> 32 < weight ? other : best >> 32, tied);
}

/* Each is there once. */
static __always_inline __u64 best_of_all(__u64 by, __u32 run, __u32 entries)
{
	__u64 best = best_of(0, entry_weight(by, run, 0));

	for (__u32 entry = 1; entry < FEW_MEMBERS; entry++)
		best = fl_better(by, run, entries, best, entry);
	return best;
}

/* Members are repeated by their weights, so that of equally good ones each is as likely. */
static __always_inline __u64 better_of_two(__u64 by, __u32 run, __u32 entries)
{
	__u32 number = by >> 32;
	__u32 first = slot_by(number, entries) - 1;
	__u32 second = slot_by(number_after(number, 0), entries - 1) - 1;

	second += second >= first;
	return fl_better(by, run, entries, best_of(first, entry_weight(by, run, second)), second);
}

/* A member of the set; 0 if there is none. */
static __always_inline __u32 least_member(__u32 kind, __u32 first_block, __u32 members,
					  __u32 number)
{
	__u64 by = choosing_by(kind, number);
	__u32 run = first_block, entries = members;
	__u64 best;

	if (kind == SET_WEIGHTED_LEAST_CONNECTIONS) {
		run = table_block(first_block, members);
		entries = fl_slot_of_run(run, 0) / 2;
	}
	best = entries > FEW_MEMBERS ? better_of_two(by, run, entries)
				     : best_of_all(by, run, entries);
	return entries ? entry_id(kind, run, best >> 32) : 0;
}

#endif
