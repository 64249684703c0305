/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Looks up connections, by the packets of their clients and by those of their backends. */
#ifndef FAIRLEAD_CONN_FIND_H
#define FAIRLEAD_CONN_FIND_H

#include "packet/conn/client/slot.h"

/* Copies the record of an index if it is that of the tuple. */
static __always_inline bool read_record_of(__u32 index, enum conn_side side, const struct tuple *t,
					   const struct conn_env *env, union conn_record *copy,
					   enum family family)
{
	return read_record(index, copy, family) && has_tuple(copy, side, t, family) &&
	       is_whole(copy, env->secret, family);
}

static __always_inline bool find_client_in(const struct client_bucket *b, __u32 bucket, __u32 tag,
					   const struct tuple *t, const struct conn_env *env,
					   union conn_record *copy, struct conn_slot *slot,
					   enum family family)
{
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < CONN_SLOTS; i++) {
		__u32 word = *(const volatile __u32 *)&b->word[i];

		if ((word & ~CONN_HALF) != tag)
			continue;
		slot->index = bucket * CONN_SLOTS + i;
		slot->word = word;
		if (read_record_of(slot->index, OF_CLIENT, t, env, copy, family))
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
	b = client_bucket_at(key.first, family);
	if (!b)
		return false;
	if (find_client_in(b, key.first, key.tag, t, env, copy, slot, family))
		return true;
	if (!*(const volatile __u32 *)&b->elsewhere)
		return false;
	b = client_bucket_at(key.second, family);
	return b && find_client_in(b, key.second, key.tag, t, env, copy, slot, family);
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

static __always_inline bool find_reply_in(__u32 bucket, __u32 tag, const struct tuple *t,
					  const struct conn_env *env, union conn_record *copy,
					  __u32 *index, enum family family)
{
	const struct reply_bucket *b = reply_bucket_at(bucket, family);

	for (__u32 i = 0; b && i < CONN_SLOTS; i++) {
		__u64 word = *(const volatile __u64 *)&b->word[i];

		*index = word;
		if (word >> 32 == tag && read_record_of(*index, OF_REPLY, t, env, copy, family))
			return true;
	}
	return false;
}

static __always_inline int find_by_reply(const struct tuple *t, const struct conn_env *env,
					 union conn_record *copy, __u32 *index, enum family family)
{
	const struct reply_bucket *b;
	struct conn_key key;

	if (!t || !env || !copy || !index)
		return false;
	key = key_of(t, env->secret, reply_buckets(family), family);
	b = reply_bucket_at(key.first, family);
	if (find_reply_in(key.first, key.tag, t, env, copy, index, family))
		return true;
	return b && *(const volatile __u64 *)&b->elsewhere &&
	       find_reply_in(key.second, key.tag, t, env, copy, index, family);
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

/* The same for a packet of a backend. */
static __always_inline bool find_reply(const struct tuple *t, const struct conn_env *env,
				       union conn_record *copy, __u32 *index, enum family family)
{
	return family == FAMILY_IPV4 ? fl_find_reply4(t, env, copy, index)
				     : fl_find_reply6(t, env, copy, index);
}

#endif
