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

static __always_inline bool is_kept_by(__u32 tomb, const struct reply_claim *c)
{
	return (tomb & TOMB_TAG) == c->tomb_tag && wait_for(tomb, c->now, c->longest);
}

/* Swapped for itself, so that what is read of its record is not older than the word. */
static __always_inline bool has_holder(struct reply_claim *c, const struct reply_slot *at,
				       enum family family)
{
	const union conn_record *other;
	__u32 index = reply_index(at->word, family);

	/* Its own: the one of its other tuple may have the same tag. */
	if (index == reply_index(c->word, family) || !swap_reply(at, at->word, family))
		return false;
	other = conn_at(index, family);
	if (!other || !has_reply_tuple(other, &c->tuple, family))
		return false;
	c->holder = index + 1;
	return true;
}

static __always_inline int meet_one(struct reply_claim *c, __u32 bucket, __u32 slot, __u32 word,
				    enum family family)
{
	struct reply_slot at = {.bucket = bucket, .slot = slot, .word = word};

	if (!c)
		return false;
	return word & REPLY_TOMB ? is_kept_by(word, c) : has_holder(c, &at, family);
}

/*
 * Whether a slot with the tag keeps others from it. Global: the verifier goes through it once, and
 * not for each slot.
 */
__noinline int fl_meet_one4(struct reply_claim *c, __u32 bucket, __u32 slot, __u32 word)
{
	return meet_one(c, bucket, slot, word, FAMILY_IPV4);
}

__noinline int fl_meet_one6(struct reply_claim *c, __u32 bucket, __u32 slot, __u32 word)
{
	return meet_one(c, bucket, slot, word, FAMILY_IPV6);
}

/* Whether a word or a tomb may keep the tuple: by its tag. */
static __always_inline bool may_keep(__u32 word, const struct reply_claim *c, enum family family)
{
	return word & REPLY_TOMB ? (word & TOMB_TAG) == c->tomb_tag
				 : has_reply_tag(word, c->tag, family);
}

static __always_inline int is_taken_in(struct reply_claim *c, __u32 bucket, enum family family)
{
	const struct reply_bucket *b = reply_bucket_at(bucket, family);

#pragma clang loop unroll(disable)
	for (__u32 i = 0; b && c && i < REPLY_SLOTS; i++) {
		__u32 word = *(const volatile __u32 *)&b->word[i];

		if (!may_keep(word, c, family))
			continue;
		if (family == FAMILY_IPV4 ? fl_meet_one4(c, bucket, i, word)
					  : fl_meet_one6(c, bucket, i, word))
			return true;
	}
	return false;
}

__noinline int fl_is_taken_in4(struct reply_claim *c, __u32 bucket)
{
	return is_taken_in(c, bucket, FAMILY_IPV4);
}

__noinline int fl_is_taken_in6(struct reply_claim *c, __u32 bucket)
{
	return is_taken_in(c, bucket, FAMILY_IPV6);
}

/*
 * Another one that has the tuple in another bucket has been counted in the first one, see
 * put_reply(). Only tombs, which are of UDP, may be there without that.
 */
static __always_inline bool may_be_elsewhere(const struct reply_claim *c, enum family family)
{
	const volatile struct reply_bucket *first = reply_bucket_at(c->key.first, family);

	return c->tuple.protocol == PROTOCOL_UDP || !first || first->elsewhere;
}

static __always_inline bool is_taken(struct reply_claim *c, enum family family)
{
#pragma clang loop unroll(disable)
	for (__u64 n = 0; n < KEY_BUCKETS; n++) {
		__u32 bucket = key_bucket(&c->key, n);

		if (n == 1 && !may_be_elsewhere(c, family))
			break;
		if (family == FAMILY_IPV4 ? fl_is_taken_in4(c, bucket) : fl_is_taken_in6(c, bucket))
			return true;
	}
	return false;
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
	if (!choose_reply(c, family) || !put_reply(c, &c->at, family))
		return CLAIM_NO_ROOM;
	if (!is_taken(c, family))
		return CLAIM_MADE;
	free_word(&c->key, c->word, 0, family);
	return CLAIM_TAKEN;
}

/* Another CPU may have taken the free slot first: then once more. */
static __always_inline int claim_of(const union conn_record *r, __u32 index, bool is_middle,
				    struct conn_env *env, enum family family)
{
	struct reply_claim *c;
	enum conn_claim made;

	if (!r || !env)
		return CLAIM_NO_ROOM;
	c = &env->claim;
	if (is_middle)
		get_tuple(r, OF_MIDDLE, &c->tuple, family);
	else
		get_tuple(r, OF_REPLY, &c->tuple, family);
	c->key = key_of(&c->tuple, env->secret, reply_buckets(family), family);
	c->now = env->now;
	c->longest = longest_wait(env->udp_new);
	c->tag = reply_tag(&c->key, family);
	c->tomb_tag = tomb_tag(&c->key);
	c->word = reply_word(c->tag, index, is_middle ? OF_MIDDLE : OF_REPLY);
	c->holder = 0;
	made = make_claim(c, family);
	if (made == CLAIM_NO_ROOM)
		made = make_claim(c, family);
	if (made == CLAIM_NO_ROOM)
		COUNT_CONN(no_reply, family);
	return made;
}

/* An enum conn_claim. Global: several begin connections, and the verifier goes through it once. */
__noinline int fl_claim4(const union conn_record *r, __u32 index, bool is_middle,
			 struct conn_env *env)
{
	return claim_of(r, index, is_middle, env, FAMILY_IPV4);
}

__noinline int fl_claim6(const union conn_record *r, __u32 index, bool is_middle,
			 struct conn_env *env)
{
	return claim_of(r, index, is_middle, env, FAMILY_IPV6);
}

/*
 * OF_REPLY or OF_MIDDLE. The slot of the record is BUSY, and the record is written, so that others
 * see what it wants.
 */
static __always_inline enum conn_claim claim_side(const union conn_record *r, __u32 index,
						  enum conn_side side, struct conn_env *env,
						  enum family family)
{
	bool is_middle = side == OF_MIDDLE;

	return family == FAMILY_IPV4 ? fl_claim4(r, index, is_middle, env)
				     : fl_claim6(r, index, is_middle, env);
}

static __always_inline enum conn_claim claim_reply(const union conn_record *r, __u32 index,
						   struct conn_env *env, enum family family)
{
	return claim_side(r, index, OF_REPLY, env, family);
}

#endif
