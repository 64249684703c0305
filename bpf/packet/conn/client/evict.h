/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Half-open connections have at most three slots of each bucket. A new one that finds no slot takes
 * that of a connection that is over: perhaps no agent runs, whose sweep would have ended it. If
 * there is none, it takes that of the half-open one in its buckets that was seen longest ago.
 * So a flood evicts only half-open ones, and a connection that both sides have confirmed loses its
 * slot only once it is over.
 */
#ifndef FAIRLEAD_CONN_EVICT_H
#define FAIRLEAD_CONN_EVICT_H

#include "packet/conn/end.h"

#define MOST_HALF 3

/*
 * A bucket with no more confirmed ones gives a slot by age. If all have more, the one with the
 * fewest gives it.
 */
#define FEW_CONFIRMED 4

/* How many slots of a bucket are taken, and of them by half-open connections. */
struct bucket_load {
	__u16 taken;
	__u16 half;
};

struct victim {
	struct conn_slot slot; /* word 0: there is none */
	__u32 age;
};

/* Of a bucket that there is not: it is full. */
static __always_inline struct bucket_load load_of(__u32 bucket, enum family family)
{
	const struct client_bucket *b = client_bucket_at(bucket, family);
	struct bucket_load load = {};

	if (!b)
		load.taken = CONN_SLOTS;
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

static __always_inline __u32 confirmed_in(const struct bucket_load *load)
{
	return load->taken - load->half;
}

/* How many confirmed ones a bucket may have that gives the slot of a half-open one. */
static __always_inline __u32 most_confirmed(const struct bucket_load load[KEY_BUCKETS])
{
	__u32 fewest = CONN_SLOTS;

#pragma clang loop unroll(full)
	for (int n = 0; n < KEY_BUCKETS; n++) {
		__u32 confirmed = confirmed_in(&load[n]);

		fewest += (confirmed - fewest) * is_less(confirmed, fewest);
	}
	return fewest > FEW_CONFIRMED ? fewest : FEW_CONFIRMED;
}

/* The slot of the connection that is to go. */
static __always_inline struct conn_slot victim_of(const struct conn_key *key, __u32 half,
						  const struct bucket_load load[KEY_BUCKETS],
						  __u32 now, enum family family)
{
	__u32 most = most_confirmed(load);
	struct victim v = {};

#pragma clang loop unroll(disable)
	for (__u64 n = 0; n < KEY_BUCKETS; n++)
		if (may_give_ended(&load[n], half))
			find_oldest(key_bucket(key, n), now, ENDED_GIVE, &v, family);
	if (v.slot.word)
		return v.slot;
#pragma clang loop unroll(disable)
	for (__u64 n = 0; n < KEY_BUCKETS; n++)
		if (confirmed_in(&load[n]) <= most)
			find_oldest(key_bucket(key, n), now, HALF_OPEN_GIVE, &v, family);
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
