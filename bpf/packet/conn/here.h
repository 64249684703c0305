/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Look-ups as those of find.h, for the packets that most are: of a connection in the first bucket
 * of its tuple, where no other word has its tag. They call no function, because with mitigations of
 * the kernel a return takes about as long as reading a word of each slot. All else is for find.h.
 */
#ifndef FAIRLEAD_CONN_HERE_H
#define FAIRLEAD_CONN_HERE_H

#include "packet/conn/find.h"

/* In place of the number of a record. */
#define NOWHERE 0xfffffffeu /* no connection has the tuple */
#define UNSURE	0xffffffffu /* find.h has to look */

/* Without a branch, see is_less(): the value if both words are the same, else 0. */
static __always_inline __u64 if_same(__u32 a, __u32 b, __u64 value)
{
	__s64 differ = (__u64)(a ^ b) - 1;

	HIDE(differ);
	differ >>= 63;
	HIDE(differ);
	return differ & value;
}

/* Of slot N with the tag; the sum of two of them is larger than that of any one. */
#define SLOT_VALUE(n) (CONN_SLOTS + 1 + (n))

/* Of the sum over all slots. No slot, which is_slot() tells: none has the tag, or several have. */
static __always_inline __u32 slot_of_sum(__u32 sum)
{
	return sum - SLOT_VALUE(0);
}

/* The number of the record that the client's tuple leads to, if the record has that tuple. */
static __always_inline __u32 client_here(const struct tuple *t, __u64 secret, enum family family)
{
	__u64 hash = hash_tuple(secret, t, family);
	__u32 bucket = bucket_of(hash, conn_buckets(family)), tag = tag_of(hash), sum = 0, at;
	const volatile struct client_bucket *b = client_bucket_at(bucket, family);

	if (!b)
		return NOWHERE;
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < CONN_SLOTS; i++)
		sum += if_same(b->word[i] & ~CONN_HALF, tag, SLOT_VALUE(i));
	at = slot_of_sum(sum);
	if (is_slot(&at))
		return bucket * CONN_SLOTS + at;
	return sum || b->elsewhere ? UNSURE : NOWHERE;
}

/* The same for the tuple of an answer. */
static __always_inline __u32 reply_here(const struct tuple *t, __u64 secret, enum family family)
{
	__u64 hash = hash_tuple(secret, t, family);
	__u32 others = index_mask(family) | REPLY_MIDDLE, sum = 0, at;
	__u32 tag = reply_tag_of(tag_of(hash), family);
	__u32 bucket = bucket_of(hash, reply_buckets(family));
	const volatile struct reply_bucket *b = reply_bucket_at(bucket, family);

	if (!b)
		return NOWHERE;
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < REPLY_SLOTS; i++)
		sum += if_same(b->word[i] & ~others, tag, SLOT_VALUE(i));
	at = slot_of_sum(sum);
	if (is_reply_slot(&at))
		return reply_index(b->word[at], family);
	return sum || b->elsewhere ? UNSURE : NOWHERE;
}

#endif
