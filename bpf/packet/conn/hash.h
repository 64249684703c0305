/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where a tuple is in an index. */
#ifndef FAIRLEAD_CONN_HASH_H
#define FAIRLEAD_CONN_HASH_H

#include "packet/conn/types.h"
#include "packet/tuple.h"

/* The two buckets that a tuple may be in, and what its word has. */
struct conn_key {
	__u32 first;
	__u32 second;
	__u32 tag;
};

/* Of `buckets`, which is any number: no division. */
static __always_inline __u32 bucket_of(__u64 hash, __u32 buckets)
{
	return (__u64)(__u32)hash * buckets >> 32;
}

/* Of the hash of a tuple; never 0. */
static __always_inline __u32 tag_of(__u64 hash)
{
	__u32 tag = hash >> 32 & CONN_TAG;

	return tag + 1 - is_set(tag);
}

/* The bucket after it: `second`, unless that is the same one. */
static __always_inline __u32 other_bucket(__u32 first, __u32 second, __u32 buckets)
{
	__u32 next = (first + 1) * is_set(first + 1 - buckets);

	return second + (next - second) * (1 - is_set(first - second));
}

static __always_inline struct conn_key key_of(const struct tuple *t, __u64 secret, __u32 buckets,
					      enum family family)
{
	__u64 hash = hash_tuple(secret, t, family);
	__u32 first = bucket_of(hash, buckets);
	struct conn_key key = {
		.first = first,
		.second = other_bucket(first, bucket_of(mix(hash, secret), buckets), buckets),
		.tag = tag_of(hash),
	};

	return key;
}

#endif
