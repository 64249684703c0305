/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Takes a client's slot for a key, in one of its buckets. */
#ifndef FAIRLEAD_CONN_TAKE_H
#define FAIRLEAD_CONN_TAKE_H

#include "packet/conn/client/evict.h"

/* Above what crowd_of() may be. */
#define NO_ROOM 16

/*
 * Half-open connections count twice, because they have fewer slots. From NO_ROOM on: a new one,
 * which is half-open or not, has no slot in the bucket.
 */
static __always_inline __u32 crowd_of(const struct bucket_load *load, __u32 half)
{
	__u32 is_full = 1 - is_less(load->taken, CONN_SLOTS);
	__u32 has_share = 1 - is_less(load->half, MOST_HALF);

	return load->taken + load->half + NO_ROOM * (is_full | (has_share & is_set(half)));
}

static __always_inline int take_free(__u32 bucket, __u32 word, enum family family)
{
	struct client_bucket *b = client_bucket_at(bucket, family);

	for (__u32 i = 0; b && i < CONN_SLOTS; i++)
		if (!*(volatile __u32 *)&b->word[i] &&
		    !__sync_val_compare_and_swap(&b->word[i], 0, word))
			return bucket * CONN_SLOTS + i + 1;
	return 0;
}

__noinline int fl_take_free4(__u32 bucket, __u32 word)
{
	return take_free(bucket, word, FAMILY_IPV4);
}

__noinline int fl_take_free6(__u32 bucket, __u32 word)
{
	return take_free(bucket, word, FAMILY_IPV6);
}

/* Counted first: a look-up that does not find it in the first bucket must go on. */
static __always_inline bool take_in(const struct conn_key *key, __u32 bucket, __u32 word,
				    struct conn_slot *slot, enum family family)
{
	__u32 taken;

	count_elsewhere(key, bucket, 1, family);
	taken = family == FAMILY_IPV4 ? fl_take_free4(bucket, word) : fl_take_free6(bucket, word);
	if (!taken)
		count_elsewhere(key, bucket, -1, family);
	*slot = (struct conn_slot){.index = taken - 1, .word = word};
	return taken;
}

/* The same with the slot of another connection, which is evicted. */
static __always_inline bool take_of(const struct conn_key *key, const struct conn_slot *victim,
				    __u32 word, struct conn_slot *slot, const struct conn_env *env,
				    enum family family)
{
	__u32 bucket = victim->index / CONN_SLOTS;

	*slot = *victim;
	count_elsewhere(key, bucket, 1, family);
	if (victim->word && swap_word(slot, word, family)) {
		evict(victim, env, family);
		return true;
	}
	count_elsewhere(key, bucket, -1, family);
	return false;
}

/*
 * A free slot, of the first bucket unless another one is less crowded; else that of one that gives
 * it, see evict.h. False: there is none, or another CPU was faster.
 */
static __always_inline bool take_slot(const struct conn_key *key, __u32 half,
				      struct conn_slot *slot, const struct conn_env *env,
				      enum family family)
{
	__u32 word = key->tag | half | CONN_BUSY, best = NO_ROOM * KEY_BUCKETS;
	struct bucket_load load[KEY_BUCKETS];
	struct conn_slot victim;

#pragma clang loop unroll(disable)
	for (__u64 n = 0; n < KEY_BUCKETS; n++) {
		__u32 one;

		load[n] = load_of(key_bucket(key, n), family);
		if (!n && !load[n].half && load[n].taken <= FIRST_TAKES)
			return take_in(key, key->first, word, slot, family);
		one = crowd_of(&load[n], half) * KEY_BUCKETS + n;
		best += (one - best) * is_less(one, best);
	}
	if (best < NO_ROOM * KEY_BUCKETS)
		return take_in(key, key_bucket(key, best % KEY_BUCKETS), word, slot, family);
	victim = victim_of(key, half, load, env->now, family);
	return take_of(key, &victim, word, slot, env, family);
}

#endif
