/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Carries a record of another table into this one, which has another number of buckets. Programs
 * may go on using the other table meanwhile, so it is done more than once: what is here already is
 * brought up to date, and what has ended there is released.
 */
#ifndef FAIRLEAD_CONN_CARRY_H
#define FAIRLEAD_CONN_CARRY_H

#include "packet/conn/client/begin.h"
#include "packet/conn/find.h"

enum carried { CARRIED_NEW, CARRIED_AGAIN, CARRIED_NOT };

/* Which round of the carry has written the record; 0: none, it began here. */
static __always_inline void mark_carried(__u32 index, __u32 round, enum family family)
{
	struct conn *c = conn_at(index, family);

	if (c)
		c->spare = round;
}

/*
 * What packets have changed in the other table, unless programs that use this one know better. What
 * `fairlead connections --drop-stale` has ended, in either table, stays so.
 */
static __always_inline void update_carried(const struct conn_slot *slot,
					   const union conn_record *from, __u32 now,
					   enum family family)
{
	union conn_record *to = conn_at(slot->index, family);

	if (!to || is_dropped(&to->conn, now) ||
	    (!is_dropped(&from->conn, now) && ticks_passed(from->conn.seen, to->conn.seen)))
		return;
	to->conn.seen = from->conn.seen;
	to->conn.answers_by = from->conn.answers_by;
	to->conn.progress_client = from->conn.progress_client;
	to->conn.progress_backend = from->conn.progress_backend;
	__sync_lock_test_and_set(&to->word[0], from->word[0]);
}

/* Of the other table's packets and connections nothing is counted here: they are there. */
static __always_inline void take_out(struct conn_slot *slot, struct conn_env *env,
				     enum family family)
{
	struct conn_traffic *traffic = conn_traffic_at(slot->index, family);
	struct conn *c = conn_at(slot->index, family);

	if (traffic)
		__builtin_memset(traffic, 0, sizeof(*traffic));
	if (c)
		c->backend_id = 0;
	release_slot(slot, env, family);
}

static __always_inline void free_claims(__u32 index, const union conn_record *from,
					struct conn_env *env, enum family family)
{
	struct conn_key key = key_in(from, OF_REPLY, env, family);

	free_reply(&key, index, OF_REPLY, 0, family);
	key = key_in(from, OF_MIDDLE, env, family);
	free_reply(&key, index, OF_MIDDLE, 0, family);
}

static __always_inline bool claim_both(const union conn_record *from, __u32 index,
				       struct conn_env *env, enum family family)
{
	const struct conn *c = &from->conn;

	if (c->reply_port && claim_reply(from, index, env, family) != CLAIM_MADE)
		return false;
	return !c->life.flags.masquerade || c->marks.own ||
	       claim_side(from, index, OF_MIDDLE, env, family) == CLAIM_MADE;
}

/*
 * Of an earlier round: it has ended in the other table, where `from` has its tuple by now. Nobody
 * else takes it out before the hold ends.
 */
static __always_inline bool take_out_holder(struct conn_env *env, enum family family)
{
	struct conn_slot slot = {.index = env->claim.holder - 1};
	const volatile struct conn *c;

	if (!env->claim.holder)
		return false;
	c = conn_at(slot.index, family);
	if (!c || !c->spare)
		return false;
	read_word(&slot, family);
	if (!slot.word || !lock_slot(&slot, family))
		return false;
	take_out(&slot, env, family);
	return true;
}

static __always_inline bool claim_again(const union conn_record *from, __u32 index,
					struct conn_env *env, enum family family)
{
	free_claims(index, from, env, family);
	return claim_both(from, index, env, family);
}

/* Once the links are replaced, another CPU may begin it here: then that one counts. */
static __always_inline enum carried carry_new(union conn_record *from, __u32 half,
					      const struct tuple *t, struct conn_slot *slot,
					      struct conn_env *env, enum family family)
{
	if (begin_slot(t, half, slot, env, family) != BEGIN_MADE)
		return CARRIED_NOT;
	write_record(slot->index, from, env, family);
	if (!claim_both(from, slot->index, env, family) &&
	    !(take_out_holder(env, family) && claim_again(from, slot->index, env, family))) {
		free_claims(slot->index, from, env, family);
		cancel_slot(slot, t, env, family);
		return CARRIED_NOT;
	}
	publish_slot(slot, family);
	return CARRIED_NEW;
}

/*
 * Of two connections of one tuple the later one counts; of the same tick the one that began here,
 * or the one that has its SNAT port: a program that uses this table has sent a packet from it.
 */
static __always_inline bool is_later_here(const union conn_record *here,
					  const union conn_record *from)
{
	__s32 later = here->conn.born - from->conn.born;

	return later > 0 ||
	       (!later && (!here->conn.spare || (here->conn.reply_port && !from->conn.reply_port)));
}

/*
 * `from`: a copy of a record of the other table. `half`: CONN_HALF of its word. `here` is for what
 * this table has of it.
 */
static __always_inline enum carried carry_record(union conn_record *from, __u32 half, __u32 round,
						 union conn_record *here, __u32 *to,
						 struct conn_env *env, enum family family)
{
	enum carried carried = CARRIED_AGAIN;
	struct conn_slot slot;
	struct tuple t;

	get_tuple(from, OF_CLIENT, &t, family);
	if (!is_whole(from, env->secret, family))
		return CARRIED_NOT;
	if (find_client(&t, env, here, &slot, family)) {
		if (here->conn.life.proof == from->conn.life.proof) {
			update_carried(&slot, from, env->now, family);
			if (!half)
				confirm_slot(&slot, family);
			mark_carried(slot.index, round, family);
			*to = slot.index;
			return carried;
		}
		if (is_later_here(here, from)) {
			mark_carried(slot.index, 0, family);
			return CARRIED_NOT;
		}
		if (!lock_slot(&slot, family))
			return CARRIED_NOT;
		take_out(&slot, env, family);
	}
	carried = carry_new(from, half, &t, &slot, env, family);
	if (carried == CARRIED_NEW)
		mark_carried(slot.index, round, family);
	*to = slot.index;
	return carried;
}

/* Ends what an earlier round has carried, and this one has not: it has ended there. */
static __always_inline bool drop_carried(struct conn_slot *slot, __u32 round, struct conn_env *env,
					 enum family family)
{
	const volatile struct conn *c = conn_at(slot->index, family);

	if (!c || !c->spare || c->spare == round || !lock_slot(slot, family))
		return false;
	take_out(slot, env, family);
	return true;
}

#endif
