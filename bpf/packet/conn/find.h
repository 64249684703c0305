/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Looks up connections, by the packets of their clients and by those of their backends. */
#ifndef FAIRLEAD_CONN_FIND_H
#define FAIRLEAD_CONN_FIND_H

#include "packet/conn/client/wait.h"

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
		if (!(word & CONN_BUSY) && is_record_of(index, side, t, env, copy, family))
			return word;
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

/* Most look-ups end in the first bucket, by its count of keys that are in the second one. */
#define FIRST_AND_SECOND 2

/* No record has this index. */
#define NONE 0xffffffffu

static __always_inline int find_by_client(const struct tuple *t, const struct conn_env *env,
					  union conn_record *copy, struct conn_slot *slot,
					  enum family family)
{
	struct conn_key key;

	if (!t || !env || !copy || !slot)
		return false;
	key = key_of(t, env->secret, conn_buckets(family), family);
	slot->word = 0; /* in memory: in a register the verifier would follow it */
#pragma clang loop unroll(disable)
	for (int n = 0; n < FIRST_AND_SECOND; n++) {
		__u32 bucket = n ? key.second : key.first;
		const struct client_bucket *b = client_bucket_at(bucket, family);

#pragma clang loop unroll(disable)
		for (__u32 i = 0; b && i < CONN_SLOTS; i++) {
			__u32 word = *(const volatile __u32 *)&b->word[i];

			if ((word & CONN_TAG) != key.tag)
				continue;
			slot->index = bucket * CONN_SLOTS + i;
			slot->word = word;
			if (!(word & CONN_BUSY) &&
			    is_record_of(slot->index, OF_CLIENT, t, env, copy, family))
				return true;
		}
		if (!b || !*(const volatile __u32 *)&b->elsewhere)
			break;
	}
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

static __always_inline int find_by_reply(const struct tuple *t, const struct conn_env *env,
					 union conn_record *copy, __u32 *index, enum family family)
{
	struct conn_key key;
	__u32 before;

	if (!t || !env || !copy || !index)
		return false;
	key = key_of(t, env->secret, reply_buckets(family), family);
	before = *index;
	*index = NONE;
#pragma clang loop unroll(disable)
	for (int n = 0; n < FIRST_AND_SECOND; n++) {
		const struct reply_bucket *b = reply_bucket_at(n ? key.second : key.first, family);

#pragma clang loop unroll(disable)
		for (__u32 i = 0; b && i < CONN_SLOTS; i++) {
			__u64 word = *(const volatile __u64 *)&b->word[i];

			if (word >> 32 != key.tag)
				continue;
			*index = word;
			if (is_record_of(word, OF_REPLY, t, env, copy, family))
				return true;
		}
		if (!b || !*(const volatile __u64 *)&b->elsewhere)
			break;
	}
	if (*index != NONE && await_of(*index, OF_REPLY, t, env, copy, family))
		return true;
	*index = before; /* of a connection that the caller may know */
	return false;
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
