/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The index of replies. A connection that has a slot for a tuple has the port in it, until the slot
 * is freed. In a bucket without a free slot the tomb that has the least to wait gives way.
 */
#ifndef FAIRLEAD_CONN_SLOTS_H
#define FAIRLEAD_CONN_SLOTS_H

#include "packet/conn/client/slot.h"
#include "packet/conn/reply/tomb.h"

/* In the first bucket, while no more are taken than these; then in the emptiest one. */
#define FIRST_TAKES 5

/* The best slot of a bucket for a new word: when it is free, and how many others are taken. */
struct reply_choice {
	struct reply_slot at;
	__u32 wait;
	__u32 taken;
};

static __always_inline bool swap_reply(const struct reply_slot *at, __u32 word, enum family family)
{
	struct reply_bucket *b = reply_bucket_at(at->bucket, family);
	__u32 slot = at->slot;

	return b && is_reply_slot(&slot) &&
	       __sync_val_compare_and_swap(&b->word[slot], at->word, word) == at->word;
}

/* As count_elsewhere(). */
static __always_inline void count_reply_elsewhere(const struct conn_key *key, __u32 bucket,
						  __s64 by, enum family family)
{
	struct reply_bucket *b;

	if (bucket == key->first)
		return;
	b = reply_bucket_at(key->first, family);
	if (b)
		__sync_fetch_and_add(&b->elsewhere, by);
}

static __always_inline int best_reply_in(__u32 bucket, __u32 now, __u32 longest,
					 struct reply_choice *choice, enum family family)
{
	const struct reply_bucket *b = reply_bucket_at(bucket, family);
	__u64 best = (__u64)NEVER * REPLY_SLOTS;
	__u32 taken = 0, slot;

	if (!b || !choice)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < REPLY_SLOTS; i++) {
		__u32 wait = wait_for(*(const volatile __u32 *)&b->word[i], now, longest);
		__u64 one = (__u64)wait * REPLY_SLOTS + i;

		taken += is_set(wait);
		best += (one - best) * is_less(one, best);
	}
	slot = best % REPLY_SLOTS;
	if (!is_reply_slot(&slot))
		return 0;
	/* Once more: another CPU may have it by now. */
	choice->at.bucket = bucket;
	choice->at.slot = slot;
	choice->at.word = *(const volatile __u32 *)&b->word[slot];
	choice->wait = wait_for(choice->at.word, now, longest);
	choice->taken = taken;
	return 0;
}

__noinline int fl_best_reply4(__u32 bucket, __u32 now, __u32 longest, struct reply_choice *choice)
{
	return best_reply_in(bucket, now, longest, choice, FAMILY_IPV4);
}

__noinline int fl_best_reply6(__u32 bucket, __u32 now, __u32 longest, struct reply_choice *choice)
{
	return best_reply_in(bucket, now, longest, choice, FAMILY_IPV6);
}

static __always_inline struct reply_choice best_reply(__u32 bucket, __u32 now, __u32 longest,
						      enum family family)
{
	struct reply_choice choice = {.wait = NEVER};

	if (family == FAMILY_IPV4)
		fl_best_reply4(bucket, now, longest, &choice);
	else
		fl_best_reply6(bucket, now, longest, &choice);
	return choice;
}

/* False: no bucket has a slot that is free, or a tomb. */
static __always_inline int choose_reply_of(const struct conn_key *key, __u32 now, __u32 longest,
					   struct reply_slot *at, enum family family)
{
	__u64 best = (__u64)NEVER << 32;

	if (!key || !at)
		return false;
#pragma clang loop unroll(disable)
	for (__u64 n = 0; n < KEY_BUCKETS; n++) {
		struct reply_choice one = best_reply(key_bucket(key, n), now, longest, family);
		__u64 rank = (__u64)one.wait << 32 | one.taken;

		if (rank >= best)
			continue;
		best = rank;
		*at = one.at;
		if (!n && rank <= FIRST_TAKES)
			break;
	}
	return best < (__u64)NEVER << 32;
}

/* Global, so that it takes no stack beside what follows. */
__noinline int fl_choose_reply4(const struct conn_key *key, __u32 now, __u32 longest,
				struct reply_slot *at)
{
	return choose_reply_of(key, now, longest, at, FAMILY_IPV4);
}

__noinline int fl_choose_reply6(const struct conn_key *key, __u32 now, __u32 longest,
				struct reply_slot *at)
{
	return choose_reply_of(key, now, longest, at, FAMILY_IPV6);
}

static __always_inline bool choose_reply(struct reply_claim *c, enum family family)
{
	return family == FAMILY_IPV4 ? fl_choose_reply4(&c->key, c->now, c->longest, &c->at)
				     : fl_choose_reply6(&c->key, c->now, c->longest, &c->at);
}

static __always_inline bool free_reply_in(__u32 bucket, __u32 word, __u32 tomb, enum family family)
{
	const struct reply_bucket *b = reply_bucket_at(bucket, family);

#pragma clang loop unroll(disable)
	for (__u32 i = 0; b && i < REPLY_SLOTS; i++) {
		struct reply_slot at = {.bucket = bucket, .slot = i, .word = word};

		/* No other slot has the word, which leads to the record. */
		if (*(const volatile __u32 *)&b->word[i] == word)
			return swap_reply(&at, tomb, family);
	}
	return false;
}

static __always_inline int free_reply_of(const struct conn_key *key, __u32 word, __u32 tomb,
					 enum family family)
{
	if (!key)
		return 0;
#pragma clang loop unroll(disable)
	for (__u64 n = 0; n < KEY_BUCKETS; n++) {
		__u32 bucket = key_bucket(key, n);

		if (!free_reply_in(bucket, word, tomb, family))
			continue;
		count_reply_elsewhere(key, bucket, -1, family);
		break;
	}
	return 0;
}

__noinline int fl_free_reply4(const struct conn_key *key, __u32 word, __u32 tomb)
{
	return free_reply_of(key, word, tomb, FAMILY_IPV4);
}

__noinline int fl_free_reply6(const struct conn_key *key, __u32 word, __u32 tomb)
{
	return free_reply_of(key, word, tomb, FAMILY_IPV6);
}

static __always_inline void free_word(const struct conn_key *key, __u32 word, __u32 tomb,
				      enum family family)
{
	if (family == FAMILY_IPV4)
		fl_free_reply4(key, word, tomb);
	else
		fl_free_reply6(key, word, tomb);
}

/* Frees the slot that a record has for one of its tuples. `tomb`: what it becomes, or 0. */
static __always_inline void free_reply(const struct conn_key *key, __u32 index, enum conn_side side,
				       __u32 tomb, enum family family)
{
	free_word(key, reply_word(reply_tag(key, family), index, side), tomb, family);
}

#endif
