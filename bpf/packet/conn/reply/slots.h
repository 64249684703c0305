/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The index of replies. A connection that has a slot for a tuple has the port in it, until the slot
 * is freed. In a bucket without a free slot the tomb that has the least to wait gives way.
 */
#ifndef FAIRLEAD_CONN_SLOTS_H
#define FAIRLEAD_CONN_SLOTS_H

#include "packet/conn/client/slot.h"
#include "packet/conn/reply/tomb.h"

/* In the first bucket, while no more are taken than these; then in the emptier one. */
#define FIRST_TAKES 4

/* The best slot of a bucket for a new word: when it is free, and how many others are taken. */
struct reply_choice {
	struct reply_slot at;
	__u32 wait;
	__u32 taken;
};

static __always_inline bool swap_reply(const struct reply_slot *at, __u64 word, enum family family)
{
	struct reply_bucket *b = reply_bucket_at(at->bucket, family);
	__u32 slot = at->slot;

	return b && is_slot(&slot) &&
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

static __always_inline int choose_reply_in(__u32 bucket, __u32 now, struct reply_choice *choice,
					   enum family family)
{
	const struct reply_bucket *b = reply_bucket_at(bucket, family);

	if (!b || !choice)
		return 0;
	choice->wait = NEVER;
	choice->taken = 0;
	for (__u32 i = 0; i < CONN_SLOTS; i++) {
		__u64 word = *(const volatile __u64 *)&b->word[i];
		__u32 wait = wait_for(word, now);

		choice->taken += is_set(wait);
		if (wait >= choice->wait)
			continue;
		choice->at = (struct reply_slot){.bucket = bucket, .slot = i, .word = word};
		choice->wait = wait;
	}
	return 0;
}

__noinline int fl_choose_reply4(__u32 bucket, __u32 now, struct reply_choice *choice)
{
	return choose_reply_in(bucket, now, choice, FAMILY_IPV4);
}

__noinline int fl_choose_reply6(__u32 bucket, __u32 now, struct reply_choice *choice)
{
	return choose_reply_in(bucket, now, choice, FAMILY_IPV6);
}

static __always_inline struct reply_choice best_reply(__u32 bucket, __u32 now, enum family family)
{
	struct reply_choice choice = {.wait = NEVER};

	if (family == FAMILY_IPV4)
		fl_choose_reply4(bucket, now, &choice);
	else
		fl_choose_reply6(bucket, now, &choice);
	return choice;
}

/* False: neither bucket has a slot that is free, or a tomb. */
static __always_inline bool choose_reply(const struct conn_key *key, __u32 now,
					 struct reply_slot *at, enum family family)
{
	struct reply_choice first = best_reply(key->first, now, family), second;

	*at = first.at;
	if (!first.wait && first.taken <= FIRST_TAKES)
		return true;
	second = best_reply(key->second, now, family);
	if (second.wait > first.wait || (second.wait == first.wait && second.taken >= first.taken))
		return first.wait != NEVER;
	*at = second.at;
	return true;
}

/* Frees the slot of a record. `tomb`: what it becomes, or 0. */
static __always_inline bool free_reply_in(__u32 bucket, __u64 word, __u64 tomb, enum family family)
{
	const struct reply_bucket *b = reply_bucket_at(bucket, family);

	for (__u32 i = 0; b && i < CONN_SLOTS; i++) {
		struct reply_slot at = {.bucket = bucket, .slot = i, .word = word};

		if (*(const volatile __u64 *)&b->word[i] == word && swap_reply(&at, tomb, family))
			return true;
	}
	return false;
}

static __always_inline void free_reply(const struct conn_key *key, __u32 index, __u64 tomb,
				       enum family family)
{
	__u64 word = (__u64)key->tag << 32 | index;

	if (!free_reply_in(key->first, word, tomb, family) &&
	    free_reply_in(key->second, word, tomb, family))
		count_reply_elsewhere(key, key->second, -1, family);
}

#endif
