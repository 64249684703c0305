/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Takes a client's slot for a key, in one of its two buckets. */
#ifndef FAIRLEAD_CONN_TAKE_H
#define FAIRLEAD_CONN_TAKE_H

#include "packet/conn/client/evict.h"

static __always_inline bool has_room(const struct bucket_load *load, __u32 half)
{
	return load->taken < CONN_SLOTS && !(half && load->half >= MOST_HALF);
}

/* Half-open connections count twice, because they have fewer slots. */
static __always_inline __u32 crowd_of(const struct bucket_load *load)
{
	return load->taken + load->half;
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
 * A free slot, of the first bucket unless the second one is less crowded; else that of one that
 * gives it, see evict.h. False: there is none, or another CPU was faster.
 */
static __always_inline bool take_slot(const struct conn_key *key, __u32 half,
				      struct conn_slot *slot, const struct conn_env *env,
				      enum family family)
{
	struct bucket_load first = load_of(key->first, family), second;
	__u32 word = key->tag | half | CONN_BUSY;
	struct conn_slot victim;

	if (!first.half && first.taken <= FIRST_TAKES)
		return take_in(key, key->first, word, slot, family);
	second = load_of(key->second, family);
	if (has_room(&first, half) &&
	    (crowd_of(&first) <= crowd_of(&second) || !has_room(&second, half)))
		return take_in(key, key->first, word, slot, family);
	if (has_room(&second, half))
		return take_in(key, key->second, word, slot, family);
	victim = victim_of(key, half, &first, &second, env->now, family);
	return take_of(key, &victim, word, slot, env, family);
}

#endif
