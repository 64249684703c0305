/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection begins: takes a slot for its client's tuple, which is BUSY until publish_slot().
 * Between them the caller writes the record, and claims its reply tuple if it knows it.
 */
#ifndef FAIRLEAD_CONN_BEGIN_H
#define FAIRLEAD_CONN_BEGIN_H

#include "packet/conn/client/take.h"
#include "packet/conn/client/wait.h"

/* Other CPUs may be faster, each time. */
#define ATTEMPTS 3

/* Who gives way does so at once. */
#define FEW_LOOKS 3

enum conn_begin {
	BEGIN_MADE,
	BEGIN_DOUBLED, /* another CPU has begun the same connection: look it up again */
	BEGIN_NO_ROOM,
};

/*
 * Whether the word is of the same connection, which another CPU has begun, too. One that changes is
 * taken for it. Swapped for itself, as in meet_word(). Of two that begin it at the same moment, the
 * one with the later slot gives way at once, and the other one waits for that: so one is left.
 */
static __always_inline int is_of(__u32 index, __u32 word, __u32 mine, const struct tuple *t,
				 enum family family)
{
	const union conn_record *r = conn_at(index, family);
	const __u32 *at = client_word(index, family);
	struct conn_slot slot = {.index = index, .word = word};

	if (at && index > mine)
		slot.word = watch_word(at, FEW_LOOKS);
	if ((slot.word ^ word) & CONN_TAG)
		return false;
	return slot.word & CONN_BUSY || !swap_word(&slot, slot.word, family) ||
	       (r && t && has_tuple(r, OF_CLIENT, t, family));
}

/* Global: the verifier goes through it once, and not for each slot. */
__noinline int fl_is_of4(__u32 index, __u32 word, __u32 mine, const struct tuple *t)
{
	return is_of(index, word, mine, t, FAMILY_IPV4);
}

__noinline int fl_is_of6(__u32 index, __u32 word, __u32 mine, const struct tuple *t)
{
	return is_of(index, word, mine, t, FAMILY_IPV6);
}

/* Both look after they have put their words, so at least one sees the other's. */
static __always_inline int is_begun(__u32 bucket, __u32 tag, __u32 mine, const struct tuple *t,
				    enum family family)
{
	const struct client_bucket *b = client_bucket_at(bucket, family);

#pragma clang loop unroll(disable)
	for (__u32 i = 0; b && i < CONN_SLOTS; i++) {
		__u32 word = *(const volatile __u32 *)&b->word[i], index = bucket * CONN_SLOTS + i;

		if ((word & CONN_TAG) == tag && index != mine &&
		    (family == FAMILY_IPV4 ? fl_is_of4(index, word, mine, t)
					   : fl_is_of6(index, word, mine, t)))
			return true;
	}
	return false;
}

__noinline int fl_is_begun4(__u32 bucket, __u32 tag, __u32 mine, const struct tuple *t)
{
	return is_begun(bucket, tag, mine, t, FAMILY_IPV4);
}

__noinline int fl_is_begun6(__u32 bucket, __u32 tag, __u32 mine, const struct tuple *t)
{
	return is_begun(bucket, tag, mine, t, FAMILY_IPV6);
}

/*
 * One in another bucket has been counted in the first one, see take_in(), unless it is ending for
 * good.
 */
static __always_inline bool is_doubled(const struct conn_key *key, __u32 mine,
				       const struct tuple *t, enum family family)
{
	const volatile struct client_bucket *first = client_bucket_at(key->first, family);

#pragma clang loop unroll(disable)
	for (__u64 n = 0; n < KEY_BUCKETS; n++) {
		__u32 bucket = key_bucket(key, n);

		if (n == 1 && first && !first->elsewhere)
			break;
		if (family == FAMILY_IPV4 ? fl_is_begun4(bucket, key->tag, mine, t)
					  : fl_is_begun6(bucket, key->tag, mine, t))
			return true;
	}
	return false;
}

/* Ends what was never published. */
static __always_inline void cancel_slot(struct conn_slot *slot, const struct tuple *t,
					const struct conn_env *env, enum family family)
{
	struct conn_key key = key_of(t, env->secret, conn_buckets(family), family);

	set_word(slot, 0, family);
	count_elsewhere(&key, slot->index / CONN_SLOTS, -1, family);
}

static __always_inline int try_slot(const struct tuple *t, __u32 half, struct conn_slot *slot,
				    const struct conn_env *env, enum family family)
{
	struct conn_key key;

	if (!t || !slot || !env)
		return BEGIN_NO_ROOM;
	key = key_of(t, env->secret, conn_buckets(family), family);
	if (!take_slot(&key, half, slot, env, family))
		return BEGIN_NO_ROOM;
	if (!is_doubled(&key, slot->index, t, family))
		return BEGIN_MADE;
	cancel_slot(slot, t, env, family);
	COUNT_CONN(doubled, family);
	return BEGIN_DOUBLED;
}

/* Global: several begin connections, and the verifier goes through it once. */
__noinline int fl_try_slot4(const struct tuple *t, __u32 half, struct conn_slot *slot,
			    const struct conn_env *env)
{
	return try_slot(t, half, slot, env, FAMILY_IPV4);
}

__noinline int fl_try_slot6(const struct tuple *t, __u32 half, struct conn_slot *slot,
			    const struct conn_env *env)
{
	return try_slot(t, half, slot, env, FAMILY_IPV6);
}

static __always_inline enum conn_begin begin_slot(const struct tuple *t, __u32 half,
						  struct conn_slot *slot,
						  const struct conn_env *env, enum family family)
{
	int begun = BEGIN_NO_ROOM;

#pragma clang loop unroll(disable)
	for (int i = 0; i < ATTEMPTS && begun == BEGIN_NO_ROOM; i++)
		begun = family == FAMILY_IPV4 ? fl_try_slot4(t, half, slot, env)
					      : fl_try_slot6(t, half, slot, env);
	if (begun == BEGIN_NO_ROOM)
		COUNT_CONN(no_room, family);
	return begun;
}

/* The record is written: all CPUs may see it. */
static __always_inline void publish_slot(struct conn_slot *slot, enum family family)
{
	count_claim(slot->word, family);
	unlock_slot(slot, family);
}

#endif
