/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Half-open connections have at most three slots of each bucket. A new one that finds no slot takes
 * that of the half-open one in its two buckets that was seen longest ago. So a flood evicts only
 * half-open ones, and a connection that both sides have confirmed never loses its slot.
 */
#ifndef FAIRLEAD_CONN_EVICT_H
#define FAIRLEAD_CONN_EVICT_H

#include "packet/conn/end.h"

#define MOST_HALF 3

/* From so many confirmed ones on, the bucket that has fewer gives the slot, whatever the ages. */
#define MANY_CONFIRMED 4

/* How many slots of a bucket are taken, and of them by half-open connections. */
struct bucket_load {
	__u32 taken;
	__u32 half;
};

struct victim {
	struct conn_slot slot; /* word 0: there is none */
	__u32 age;
};

static __always_inline struct bucket_load load_of(__u32 bucket, enum family family)
{
	const struct client_bucket *b = client_bucket_at(bucket, family);
	struct bucket_load load = {};

#pragma clang loop unroll(full)
	for (__u32 i = 0; b && i < CONN_SLOTS; i++) {
		__u32 word = *(const volatile __u32 *)&b->word[i];

		load.taken += is_set(word);
		load.half += is_set(word & CONN_HALF);
	}
	return load;
}

static __always_inline int note_oldest(__u32 bucket, __u32 now, struct victim *v,
				       enum family family)
{
	const struct client_bucket *b = client_bucket_at(bucket, family);

	for (__u32 i = 0; b && v && i < CONN_SLOTS; i++) {
		__u32 word = *(const volatile __u32 *)&b->word[i], index = bucket * CONN_SLOTS + i;
		const volatile struct conn *c = conn_at(index, family);
		__u32 age;

		if (!c || (word & (CONN_HALF | CONN_BUSY)) != CONN_HALF)
			continue;
		age = ticks_passed(c->seen, now);
		if (v->slot.word && age <= v->age)
			continue;
		v->slot.index = index;
		v->slot.word = word;
		v->age = age;
	}
	return 0;
}

__noinline int fl_note_oldest4(__u32 bucket, __u32 now, struct victim *v)
{
	return note_oldest(bucket, now, v, FAMILY_IPV4);
}

__noinline int fl_note_oldest6(__u32 bucket, __u32 now, struct victim *v)
{
	return note_oldest(bucket, now, v, FAMILY_IPV6);
}

static __always_inline void find_oldest(__u32 bucket, __u32 now, struct victim *v,
					enum family family)
{
	if (family == FAMILY_IPV4)
		fl_note_oldest4(bucket, now, v);
	else
		fl_note_oldest6(bucket, now, v);
}

/* The slot of the half-open connection that is to go. */
static __always_inline struct conn_slot victim_of(const struct conn_key *key,
						  const struct bucket_load *first,
						  const struct bucket_load *second, __u32 now,
						  enum family family)
{
	__u32 in_first = first->taken - first->half, in_second = second->taken - second->half;
	bool is_crowded = in_first >= MANY_CONFIRMED || in_second >= MANY_CONFIRMED;
	struct victim v = {};

	if (!is_crowded || in_first <= in_second)
		find_oldest(key->first, now, &v, family);
	if (!is_crowded || in_second <= in_first)
		find_oldest(key->second, now, &v, family);
	return v.slot;
}

/* Of the connection that had the slot, whose word is this CPU's by now. */
static __always_inline void evict(const struct conn_slot *victim, const struct conn_env *env,
				  enum family family)
{
	if (family == FAMILY_IPV4)
		fl_let_go4(victim, env);
	else
		fl_let_go6(victim, env);
	COUNT_CONN(evicted, family);
}

#endif
