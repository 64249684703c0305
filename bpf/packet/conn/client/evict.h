/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Half-open connections have at most three slots of each bucket. A new one that finds no slot takes
 * that of a connection that is over: perhaps no agent runs, whose sweep would have ended it. If
 * there is none, it takes that of the half-open one in its two buckets that was seen longest ago.
 * So a flood evicts only half-open ones, and a connection that both sides have confirmed loses its
 * slot only once it is over.
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

enum giving { HALF_OPEN_GIVE, ENDED_GIVE };

/* One RST closed it, which may be forged: the next packet opens it again, until the sweep comes. */
static __always_inline bool may_resume(struct conn_life life)
{
	return life.state == CONN_CLOSED_BY_CLIENT || life.state == CONN_CLOSED_BY_BACKEND;
}

/* Before the first sync there are no timeouts, and no connection is over. */
__noinline int fl_has_ended(__u64 life, __u32 silent_ticks)
{
	const struct packet_settings *s = packet_settings();
	union conn_word word = {.word = life};

	return s && s->timeout_seconds.tcp_established && !may_resume(word.life) &&
	       liveness_of(word.life, silent_ticks, &s->timeout_seconds) >= CONN_ENDED;
}

static __always_inline int note_oldest(__u32 bucket, __u32 now, enum giving giving,
				       struct victim *v, enum family family)
{
	const struct client_bucket *b = client_bucket_at(bucket, family);

	for (__u32 i = 0; b && v && i < CONN_SLOTS; i++) {
		__u32 word = *(const volatile __u32 *)&b->word[i], index = bucket * CONN_SLOTS + i;
		const struct conn *c = conn_at(index, family);
		__u32 age;

		if (!c || !word || word & CONN_BUSY)
			continue;
		age = ticks_passed(*(const volatile __u32 *)&c->seen, now);
		if (giving == ENDED_GIVE ? !fl_has_ended(*(const volatile __u64 *)&c->life, age)
					 : !(word & CONN_HALF))
			continue;
		if (v->slot.word && age <= v->age)
			continue;
		v->slot.index = index;
		v->slot.word = word;
		v->age = age;
	}
	return 0;
}

__noinline int fl_note_oldest4(__u32 bucket, __u32 now, enum giving giving, struct victim *v)
{
	return note_oldest(bucket, now, giving, v, FAMILY_IPV4);
}

__noinline int fl_note_oldest6(__u32 bucket, __u32 now, enum giving giving, struct victim *v)
{
	return note_oldest(bucket, now, giving, v, FAMILY_IPV6);
}

static __always_inline void find_oldest(__u32 bucket, __u32 now, enum giving giving,
					struct victim *v, enum family family)
{
	if (family == FAMILY_IPV4)
		fl_note_oldest4(bucket, now, giving, v);
	else
		fl_note_oldest6(bucket, now, giving, v);
}

/* A half-open one that took the slot of one that is over would go beyond their share. */
static __always_inline bool may_give_ended(const struct bucket_load *load, __u32 half)
{
	return load->taken == CONN_SLOTS && !(half && load->half >= MOST_HALF);
}

/* The slot of the connection that is to go. */
static __always_inline struct conn_slot victim_of(const struct conn_key *key, __u32 half,
						  const struct bucket_load *first,
						  const struct bucket_load *second, __u32 now,
						  enum family family)
{
	__u32 in_first = first->taken - first->half, in_second = second->taken - second->half;
	bool is_crowded = in_first >= MANY_CONFIRMED || in_second >= MANY_CONFIRMED;
	struct victim v = {};

	if (may_give_ended(first, half))
		find_oldest(key->first, now, ENDED_GIVE, &v, family);
	if (may_give_ended(second, half))
		find_oldest(key->second, now, ENDED_GIVE, &v, family);
	if (v.slot.word)
		return v.slot;
	if (!is_crowded || in_first <= in_second)
		find_oldest(key->first, now, HALF_OPEN_GIVE, &v, family);
	if (!is_crowded || in_second <= in_first)
		find_oldest(key->second, now, HALF_OPEN_GIVE, &v, family);
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
