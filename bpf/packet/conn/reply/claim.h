/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Takes the reply tuple of a record, and so its port. Two CPUs may want one tuple at the same
 * moment: each looks once more after it has put its word, so at least one sees the other's, and
 * gives way. Perhaps both do.
 */
#ifndef FAIRLEAD_CONN_CLAIM_H
#define FAIRLEAD_CONN_CLAIM_H

#include "packet/conn/reply/slots.h"

enum conn_claim {
	CLAIM_MADE,
	CLAIM_TAKEN, /* another connection has it, or its backend may still answer one */
	CLAIM_NO_ROOM,
};

static __always_inline bool is_kept_by(__u64 tomb, const struct reply_claim *c)
{
	return (__u32)tomb == c->key.tag && wait_for(tomb, c->now);
}

/* Swapped for itself, so that what is read of its record is not older than the word. */
static __always_inline bool has_holder(struct reply_claim *c, const struct reply_slot *at,
				       enum family family)
{
	const union conn_record *other;

	if (at->word >> 32 != c->key.tag || at->word == c->word ||
	    !swap_reply(at, at->word, family))
		return false;
	other = conn_at(at->word, family);
	if (!other || !has_reply_tuple(other, &c->tuple, family))
		return false;
	c->holder = (__u32)at->word + 1;
	return true;
}

static __always_inline int is_taken_in(struct reply_claim *c, __u32 bucket, enum family family)
{
	const struct reply_bucket *b = reply_bucket_at(bucket, family);
	bool is_taken = false;

	for (__u32 i = 0; b && c && i < CONN_SLOTS && !is_taken; i++) {
		struct reply_slot at = {
			.bucket = bucket,
			.slot = i,
			.word = *(const volatile __u64 *)&b->word[i],
		};

		is_taken = at.word >> 32 & CONN_TOMB ? is_kept_by(at.word, c)
						     : has_holder(c, &at, family);
	}
	return is_taken;
}

__noinline int fl_is_taken_in4(struct reply_claim *c, __u32 bucket)
{
	return is_taken_in(c, bucket, FAMILY_IPV4);
}

__noinline int fl_is_taken_in6(struct reply_claim *c, __u32 bucket)
{
	return is_taken_in(c, bucket, FAMILY_IPV6);
}

static __always_inline bool is_taken(struct reply_claim *c, enum family family)
{
	if (family == FAMILY_IPV4)
		return fl_is_taken_in4(c, c->key.first) || fl_is_taken_in4(c, c->key.second);
	return fl_is_taken_in6(c, c->key.first) || fl_is_taken_in6(c, c->key.second);
}

/* Counted first: a look-up that does not find it in the first bucket must go on. */
static __always_inline bool put_reply(const struct reply_claim *c, const struct reply_slot *at,
				      enum family family)
{
	count_reply_elsewhere(&c->key, at->bucket, 1, family);
	if (swap_reply(at, c->word, family))
		return true;
	count_reply_elsewhere(&c->key, at->bucket, -1, family);
	return false;
}

static __always_inline enum conn_claim make_claim(struct reply_claim *c, enum family family)
{
	if (is_taken(c, family))
		return CLAIM_TAKEN;
	if (!choose_reply(&c->key, c->now, &c->at, family) || !put_reply(c, &c->at, family))
		return CLAIM_NO_ROOM;
	if (!is_taken(c, family))
		return CLAIM_MADE;
	free_reply(&c->key, c->word, 0, family);
	return CLAIM_TAKEN;
}

/*
 * The slot of the record is BUSY, and the record is written, so that others see what it wants.
 * Another CPU may have taken the free slot first: then once more.
 */
static __always_inline enum conn_claim claim_side(const union conn_record *r, __u32 index,
						  enum conn_side side, struct conn_env *env,
						  enum family family)
{
	struct reply_claim *c = &env->claim;
	enum conn_claim made;

	get_tuple(r, side, &c->tuple, family);
	c->key = key_of(&c->tuple, env->secret, reply_buckets(family), family);
	c->now = env->now;
	c->word = (__u64)c->key.tag << 32 | index;
	c->holder = 0;
	made = make_claim(c, family);
	if (made == CLAIM_NO_ROOM)
		made = make_claim(c, family);
	if (made == CLAIM_NO_ROOM)
		COUNT_CONN(no_reply, family);
	return made;
}

static __always_inline enum conn_claim claim_reply(const union conn_record *r, __u32 index,
						   struct conn_env *env, enum family family)
{
	return claim_side(r, index, OF_REPLY, env, family);
}

#endif
