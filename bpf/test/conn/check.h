/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What must never be, however many CPUs use the table. */
#ifndef FAIRLEAD_TEST_CONN_CHECK_H
#define FAIRLEAD_TEST_CONN_CHECK_H

#include "test/conn/work.h"

/* A word of the key in one of its buckets, but that of `mine`. `busy`: also one that is. */
static __always_inline int word_in(__u32 bucket, __u32 tag, __u32 busy, __u32 mine,
				   enum family family)
{
	const struct client_bucket *b = client_bucket_at(bucket, family);
	__u32 ignored = CONN_HALF | (busy ? CONN_BUSY : 0);

	for (__u32 i = 0; b && i < CONN_SLOTS; i++) {
		__u32 word = *(const volatile __u32 *)&b->word[i];

		if ((word & ~ignored) == tag && bucket * CONN_SLOTS + i != mine)
			return bucket * CONN_SLOTS + i + 1;
	}
	return 0;
}

__noinline int word_in4(__u32 bucket, __u32 tag, __u32 busy, __u32 mine)
{
	return word_in(bucket, tag, busy, mine, FAMILY_IPV4);
}

__noinline int word_in6(__u32 bucket, __u32 tag, __u32 busy, __u32 mine)
{
	return word_in(bucket, tag, busy, mine, FAMILY_IPV6);
}

#define NOBODY 0xffffffffu

/* Its record's number + 1; 0: there is none. */
static __always_inline __u32 word_of(const struct work *w, bool busy, __u32 mine,
				     enum family family)
{
	struct conn_key key = key_of(&w->tuple, SECRET, conn_buckets(family), family);
	bool is_ipv4 = family == FAMILY_IPV4;

#pragma clang loop unroll(disable)
	for (__u64 n = 0; n < KEY_BUCKETS; n++) {
		__u32 bucket = key_bucket(&key, n);
		__u32 found = is_ipv4 ? word_in4(bucket, key.tag, busy, mine)
				      : word_in6(bucket, key.tag, busy, mine);

		if (found)
			return found;
	}
	return 0;
}

static __always_inline bool find_again(struct work *w, enum family family)
{
	return find_client(&w->tuple, &w->env, &w->again, &w->slot_again, family);
}

/* The connection that was found is still there: no other one has its `born`. */
static __always_inline bool is_still(struct work *w, enum family family)
{
	return find_again(w, family) && w->slot_again.index == w->slot.index &&
	       w->again.conn.born == w->copy.conn.born;
}

static __always_inline void check_reply(struct work *w, enum family family)
{
	if (!w->copy.conn.reply_port)
		return;
	get_tuple(&w->copy, OF_REPLY, &w->reply, family);
	if (find_reply(&w->reply, &w->env, &w->again, &w->reply_index, family) &&
	    w->reply_index == w->slot.index)
		return;
	if (is_still(w, family) && w->again.conn.reply_port == w->copy.conn.reply_port)
		COUNT(lost_reply, 1);
}

/* Another word of the key, before and after it is sure that the first one is still there. */
static __always_inline void check_twice(struct work *w, enum family family)
{
	__u32 other = word_of(w, false, w->slot.index, family);

	if (other && is_still(w, family) && word_of(w, false, w->slot.index, family) == other &&
	    is_still(w, family))
		COUNT(twice, 1);
}

/* Not found: it is not there, or busy at this moment. */
static __always_inline void check_missing(struct work *w, __u32 before, enum family family)
{
	__u32 there = word_of(w, false, NOBODY, family);

	if (!(before & 1))
		return;
	if (!word_of(w, true, NOBODY, family)) {
		COUNT(gone, sure_of(w->id) == before);
		return;
	}
	for (int i = 0; i < 4; i++)
		if (!there || find_again(w, family) || word_of(w, false, NOBODY, family) != there ||
		    sure_of(w->id) != before)
			return;
	COUNT(not_found, 1);
}

#endif
