/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where a tuple is in an index. */
#ifndef FAIRLEAD_CONN_HASH_H
#define FAIRLEAD_CONN_HASH_H

#include "packet/conn/types.h"
#include "packet/tuple.h"

/*
 * Where a tuple may be: in two buckets, and in the ones after them, which are in the same line of
 * the cache or in the next one. And what its word has.
 */
struct conn_key {
	__u32 first;
	__u32 second;
	__u32 tag;
};

/* Buckets of a key, in the order that they are looked through. Two of them may be one. */
#define KEY_BUCKETS 4

static __always_inline __u32 key_bucket(const struct conn_key *key, __u64 n)
{
	return (n < 2 ? key->first : key->second) + (n & 1);
}

/* Of `buckets`, which is any number from 2: no division. Never the last one, so one is after it. */
static __always_inline __u32 bucket_of(__u64 hash, __u32 buckets)
{
	return (__u64)(__u32)hash * (buckets - 1) >> 32;
}

/* Of the hash of a tuple; never 0. */
static __always_inline __u32 tag_of(__u64 hash)
{
	__u32 tag = hash >> 32 & CONN_TAG;

	return tag + 1 - is_set(tag);
}

static __always_inline struct conn_key key_of(const struct tuple *t, __u64 secret, __u32 buckets,
					      enum family family)
{
	__u64 hash = hash_tuple(secret, t, family);
	struct conn_key key = {
		.first = bucket_of(hash, buckets),
		.second = bucket_of(mix(hash, secret), buckets),
		.tag = tag_of(hash),
	};

	return key;
}

#endif
