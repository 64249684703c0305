/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Looks up connections, by the packets of their clients and by those of their backends. */
#ifndef FAIRLEAD_CONN_FIND_H
#define FAIRLEAD_CONN_FIND_H

#include "packet/conn/client/wait.h"
#include "packet/conn/reply/word.h"

/* Copies the record of an index if it is that of the tuple. */
static __always_inline int read_record_of(__u32 index, __u32 side, const struct tuple *t,
					  const struct conn_env *env, union conn_record *copy,
					  enum family family)
{
	if (!t || !env || !copy || !read_record(index, copy, family))
		return false;
	barrier(); /* the copy is in memory, not in the 168 bytes of stack that its words would take
		    */
	return (side == OF_CLIENT ? has_tuple(copy, OF_CLIENT, t, family)
				  : has_reply_tuple(copy, t, family)) &&
	       is_whole(copy, env->secret, family);
}

/* Global: the verifier goes through it once, and not for each slot. */
__noinline int fl_read_of4(__u32 index, __u32 side, const struct tuple *t,
			   const struct conn_env *env, union conn_record *copy)
{
	return read_record_of(index, side, t, env, copy, FAMILY_IPV4);
}

__noinline int fl_read_of6(__u32 index, __u32 side, const struct tuple *t,
			   const struct conn_env *env, union conn_record *copy)
{
	return read_record_of(index, side, t, env, copy, FAMILY_IPV6);
}

static __always_inline bool is_record_of(__u32 index, enum conn_side side, const struct tuple *t,
					 const struct conn_env *env, union conn_record *copy,
					 enum family family)
{
	return family == FAMILY_IPV4 ? fl_read_of4(index, side, t, env, copy)
				     : fl_read_of6(index, side, t, env, copy);
}

/*
 * The same of a record that another CPU is at work on, or was. It may be locked again at once: the
 * SNAT port is chosen when it has been published. Returns the word of its slot, or 0.
 */
static __always_inline __u32 await_record_of(__u32 index, __u32 side, const struct tuple *t,
					     const struct conn_env *env, union conn_record *copy,
					     enum family family)
{
	const __u32 *at = client_word(index, family);

#pragma clang loop unroll(disable)
	for (int i = 0; at && i < WAITS; i++) {
		__u32 word = fl_watch_word(at);

		if (!word)
			return 0;
		if (word & CONN_BUSY)
			continue;
		if (is_record_of(index, side, t, env, copy, family))
			return word;
		/* Nobody is at work on it: it is another connection's, whose word has the tag, too.
		 */
		if (*(const volatile __u32 *)at == word)
			return 0;
	}
	return 0;
}

__noinline __u32 fl_await_of4(__u32 index, __u32 side, const struct tuple *t,
			      const struct conn_env *env, union conn_record *copy)
{
	return await_record_of(index, side, t, env, copy, FAMILY_IPV4);
}

__noinline __u32 fl_await_of6(__u32 index, __u32 side, const struct tuple *t,
			      const struct conn_env *env, union conn_record *copy)
{
	return await_record_of(index, side, t, env, copy, FAMILY_IPV6);
}

static __always_inline __u32 await_of(__u32 index, __u32 side, const struct tuple *t,
				      const struct conn_env *env, union conn_record *copy,
				      enum family family)
{
	return family == FAMILY_IPV4 ? fl_await_of4(index, side, t, env, copy)
				     : fl_await_of6(index, side, t, env, copy);
}

/* Whether the bucket leads to the record of the tuple. Else the slot is one to wait for, if any. */
static __always_inline int search_client(const struct client_bucket *b, __u32 bucket, __u32 tag,
					 const struct tuple *t, const struct conn_env *env,
					 union conn_record *copy, struct conn_slot *slot,
					 enum family family)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; b && i < CONN_SLOTS; i++) {
		__u32 word = *(const volatile __u32 *)&b->word[i];

		if ((word & CONN_TAG) != tag)
			continue;
		slot->index = bucket * CONN_SLOTS + i;
		slot->word = word;
		if (!(word & CONN_BUSY) &&
		    is_record_of(slot->index, OF_CLIENT, t, env, copy, family))
			return true;
	}
	return false;
}

/*
 * Global: the verifier goes through it once, and not for each bucket. Most look-ups end in the
 * first one, without this call. `place`: the bucket, and in the lower half the tag.
 */
__noinline int fl_search_client4(__u64 place, const struct tuple *t, const struct conn_env *env,
				 union conn_record *copy, struct conn_slot *slot)
{
	if (!t || !env || !copy || !slot)
		return false;
	return search_client(client_bucket_at(place >> 32, FAMILY_IPV4), place >> 32, place, t, env,
			     copy, slot, FAMILY_IPV4);
}

__noinline int fl_search_client6(__u64 place, const struct tuple *t, const struct conn_env *env,
				 union conn_record *copy, struct conn_slot *slot)
{
	if (!t || !env || !copy || !slot)
		return false;
	return search_client(client_bucket_at(place >> 32, FAMILY_IPV6), place >> 32, place, t, env,
			     copy, slot, FAMILY_IPV6);
}

static __always_inline bool client_elsewhere(const struct conn_key *key, const struct tuple *t,
					     const struct conn_env *env, union conn_record *copy,
					     struct conn_slot *slot, enum family family)
{
#pragma clang loop unroll(disable)
	for (__u64 n = 1; n < KEY_BUCKETS; n++) {
		__u64 place = (__u64)key_bucket(key, n) << 32 | key->tag;

		if (family == FAMILY_IPV4 ? fl_search_client4(place, t, env, copy, slot)
					  : fl_search_client6(place, t, env, copy, slot))
			return true;
	}
	return false;
}

static __always_inline int find_by_client(const struct tuple *t, const struct conn_env *env,
					  union conn_record *copy, struct conn_slot *slot,
					  enum family family)
{
	const struct client_bucket *b;
	struct conn_key key;

	if (!t || !env || !copy || !slot)
		return false;
	key = key_of(t, env->secret, conn_buckets(family), family);
	slot->word = 0; /* in memory: in a register the verifier would follow it */
	b = client_bucket_at(key.first, family);
	if (search_client(b, key.first, key.tag, t, env, copy, slot, family))
		return true;
	if (b && *(const volatile __u32 *)&b->elsewhere &&
	    client_elsewhere(&key, t, env, copy, slot, family))
		return true;
	if (!slot->word)
		return false;
	slot->word = await_of(slot->index, OF_CLIENT, t, env, copy, family);
	return slot->word != 0;
}

__noinline int fl_find_client4(const struct tuple *t, const struct conn_env *env,
			       union conn_record *copy, struct conn_slot *slot)
{
	return find_by_client(t, env, copy, slot, FAMILY_IPV4);
}

__noinline int fl_find_client6(const struct tuple *t, const struct conn_env *env,
			       union conn_record *copy, struct conn_slot *slot)
{
	return find_by_client(t, env, copy, slot, FAMILY_IPV6);
}

/* False: there is no such connection. Else its slot and a copy of its record. */
static __always_inline bool find_client(const struct tuple *t, const struct conn_env *env,
					union conn_record *copy, struct conn_slot *slot,
					enum family family)
{
	return family == FAMILY_IPV4 ? fl_find_client4(t, env, copy, slot)
				     : fl_find_client6(t, env, copy, slot);
}

/* Beside the number of a record: it is that of the tuple. */
#define HAS_TUPLE 0x80000000u

/* 1 + the number of the record that the bucket leads to. 0: no word has the tag. */
static __always_inline __u32 search_reply(const struct reply_bucket *b, __u32 tag,
					  const struct tuple *t, const struct conn_env *env,
					  union conn_record *copy, enum family family)
{
	__u32 at = 0;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; b && i < REPLY_SLOTS; i++) {
		__u32 word = *(const volatile __u32 *)&b->word[i];

		if (!has_reply_tag(word, tag, family))
			continue;
		at = 1 + reply_index(word, family);
		if (is_record_of(at - 1, OF_REPLY, t, env, copy, family))
			return at | HAS_TUPLE;
	}
	return at;
}

/* As fl_search_client4(). */
__noinline __u32 fl_search_reply4(__u32 bucket, __u32 tag, const struct tuple *t,
				  const struct conn_env *env, union conn_record *copy)
{
	if (!t || !env || !copy)
		return 0;
	return search_reply(reply_bucket_at(bucket, FAMILY_IPV4), tag, t, env, copy, FAMILY_IPV4);
}

__noinline __u32 fl_search_reply6(__u32 bucket, __u32 tag, const struct tuple *t,
				  const struct conn_env *env, union conn_record *copy)
{
	if (!t || !env || !copy)
		return 0;
	return search_reply(reply_bucket_at(bucket, FAMILY_IPV6), tag, t, env, copy, FAMILY_IPV6);
}

/* As search_reply(); `at`: what the first bucket leads to. */
static __always_inline __u32 reply_elsewhere(__u32 at, const struct conn_key *key, __u32 tag,
					     const struct tuple *t, const struct conn_env *env,
					     union conn_record *copy, enum family family)
{
#pragma clang loop unroll(disable)
	for (__u64 n = 1; n < KEY_BUCKETS && !(at & HAS_TUPLE); n++) {
		__u32 bucket = key_bucket(key, n);
		__u32 one = family == FAMILY_IPV4 ? fl_search_reply4(bucket, tag, t, env, copy)
						  : fl_search_reply6(bucket, tag, t, env, copy);

		if (one)
			at = one;
	}
	return at;
}

static __always_inline int find_by_reply(const struct tuple *t, const struct conn_env *env,
					 union conn_record *copy, __u32 *index, enum family family)
{
	const struct reply_bucket *b;
	struct conn_key key;
	__u32 tag, at;

	if (!t || !env || !copy || !index)
		return false;
	key = key_of(t, env->secret, reply_buckets(family), family);
	tag = reply_tag(&key, family);
	b = reply_bucket_at(key.first, family);
	at = search_reply(b, tag, t, env, copy, family);
	if (!(at & HAS_TUPLE) && b && *(const volatile __u32 *)&b->elsewhere)
		at = reply_elsewhere(at, &key, tag, t, env, copy, family);
	/* One that is not found leaves the index: it would be taken for that of another one. */
	if (!at || (!(at & HAS_TUPLE) && !await_of(at - 1, OF_REPLY, t, env, copy, family)))
		return false;
	*index = (at & ~HAS_TUPLE) - 1;
	return true;
}

__noinline int fl_find_reply4(const struct tuple *t, const struct conn_env *env,
			      union conn_record *copy, __u32 *index)
{
	return find_by_reply(t, env, copy, index, FAMILY_IPV4);
}

__noinline int fl_find_reply6(const struct tuple *t, const struct conn_env *env,
			      union conn_record *copy, __u32 *index)
{
	return find_by_reply(t, env, copy, index, FAMILY_IPV6);
}

/* The same for a packet of a backend: on the wire, or as the network stack sees it. */
static __always_inline bool find_reply(const struct tuple *t, const struct conn_env *env,
				       union conn_record *copy, __u32 *index, enum family family)
{
	return family == FAMILY_IPV4 ? fl_find_reply4(t, env, copy, index)
				     : fl_find_reply6(t, env, copy, index);
}

#endif
