/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads and writes whole records. A reader copies a record, and believes the copy if its addresses
 * are those of the packet and the proof fits. So it needs no lock, and no barrier, to find out that
 * the record was given to another connection meanwhile.
 */
#ifndef FAIRLEAD_CONN_RECORD_H
#define FAIRLEAD_CONN_RECORD_H

#include "packet/conn/hash.h"
#include "packet/conn/maps.h"
#include "packet/conn/sides.h"

struct reply_slot {
	__u32 bucket;
	__u32 slot;
	__u32 word; /* as it was read */
};

/* A reply tuple that a record wants, see reply/claim.h. */
struct reply_claim {
	struct tuple tuple;
	struct conn_key key;
	__u32 now;
	__u32 longest; /* how long a tomb may wait, see reply/tomb.h */
	__u32 tag;     /* of a word of the tuple, and of a tomb */
	__u32 tomb_tag;
	__u32 word;
	struct reply_slot at; /* where it goes */
	__u32 holder;	      /* of CLAIM_TAKEN: 1 + the record that has the tuple, or 0 */
};

/* What a program knows when it uses the table. */
struct conn_env {
	__u64 secret;
	__u32 now;		  /* tick */
	__u32 udp_new;		  /* for so many ticks the backend may still answer a datagram */
	struct reply_claim claim; /* the latest one: the stack is too small */
};

static __always_inline struct conn_key key_in(const union conn_record *r, enum conn_side side,
					      const struct conn_env *env, enum family family)
{
	struct tuple t;

	get_tuple(r, side, &t, family);
	return key_of(&t, env->secret,
		      side == OF_CLIENT ? conn_buckets(family) : reply_buckets(family), family);
}

/* --- proof ------------------------------------------------------------------------------------ */

/* Each word has a factor of its own: they may be multiplied beside each other. */
static __always_inline __u64 weigh(__u64 word, int at)
{
	return word * (0x9e3779b97f4a7c15ULL * (2 * at + 1));
}

/* Of all that is written while BUSY. `born` tells two connections of the same addresses apart. */
static __always_inline __u16 proof_of(const union conn_record *r, __u64 secret, enum family family)
{
	const struct conn *c = &r->conn;
	__u64 sum = weigh(r->word[1], 1) + weigh(c->born, 2) +
		    weigh((__u64)c->middle_port << 32 | (__u32)c->life.generation << 8 |
				  c->life.protocol,
			  3);

#pragma clang loop unroll(full)
	for (int i = ADDRESS_WORD - 1; i < words_of(family); i++)
		sum += weigh(r->word[i], i);
	return mix(sum, secret) >> 48;
}

static __always_inline bool is_whole(const union conn_record *r, __u64 secret, enum family family)
{
	return r->conn.life.proof == proof_of(r, secret, family);
}

/* --- whole records ---------------------------------------------------------------------------- */

/* False: there is no such record. */
static __always_inline bool read_record(__u32 index, union conn_record *copy, enum family family)
{
	const volatile union conn_record *r = conn_at(index, family);

	if (!r)
		return false;
#pragma clang loop unroll(full)
	for (int i = 0; i < words_of(family); i++)
		copy->word[i] = r->word[i];
	return true;
}

/* Its slot is BUSY. Nothing has been counted for the new connection. */
static __always_inline void write_record(__u32 index, union conn_record *new,
					 const struct conn_env *env, enum family family)
{
	volatile union conn_record *r = conn_at(index, family);
	struct conn_traffic *traffic = conn_traffic_at(index, family);

	if (!r)
		return;
	new->conn.life.proof = proof_of(new, env->secret, family);
#pragma clang loop unroll(full)
	for (int i = 0; i < words_of(family); i++)
		r->word[i] = new->word[i];
	if (traffic)
		__builtin_memset(traffic, 0, sizeof(*traffic));
}

/* Until seal_record() nobody believes the record, which has another proof. Its slot is BUSY. */
static __always_inline void write_reply(__u32 index, const union conn_record *new,
					enum family family)
{
	volatile union conn_record *r = conn_at(index, family);

#pragma clang loop unroll(full)
	for (int i = ADDRESS_WORD - 1; r && i < words_of(family); i++)
		r->word[i] = new->word[i];
}

/*
 * Packets without the slot may change the state meanwhile, which is part of the same word: only the
 * bits of the proof change, which is this CPU's.
 */
static __always_inline void seal_record(__u32 index, union conn_record *new,
					const struct conn_env *env, enum family family)
{
	union conn_record *r = conn_at(index, family);
	union {
		struct conn_life life;
		__u64 word;
	} change = {};

	if (!r)
		return;
	new->conn.life.proof = proof_of(new, env->secret, family);
	change.life.proof = new->conn.life.proof ^ r->conn.life.proof;
	__sync_fetch_and_xor(&r->word[0], change.word);
}

#endif
