/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A connection ends: its reply slots are freed, then the client's. */
#ifndef FAIRLEAD_CONN_END_H
#define FAIRLEAD_CONN_END_H

#include "packet/conn/life/liveness.h"
#include "packet/conn/reply/claim.h"
#include "packet/conn/traffic.h"

/*
 * The backend may still answer a datagram: nobody else may get the tuple, or the answer would be
 * given to another client. To a SYN-ACK that comes late the node, or the next client, answers by a
 * RST.
 */
static __always_inline bool awaits_answer(const struct conn *c, const struct conn_env *env)
{
	return c->life.protocol == PROTOCOL_UDP && c->life.state != CONN_ESTABLISHED &&
	       (c->life.state == CONN_NEW || c->questions) &&
	       ticks_passed(c->seen, env->now) < env->udp_new;
}

/* A client's own tuple is nobody else's. */
static __always_inline __u32 tomb_after(const union conn_record *r, const struct conn_key *key,
					const struct conn_env *env)
{
	const struct conn *c = &r->conn;

	if (!c->life.flags.masquerade || !awaits_answer(c, env))
		return 0;
	return tomb_of(key, c->seen + env->udp_new, env->now);
}

/* All but the word of the slot, which is BUSY. */
static __always_inline int let_go(const struct conn_slot *slot, const struct conn_env *env,
				  enum family family)
{
	const union conn_record *r = slot ? conn_at(slot->index, family) : NULL;
	struct conn_key key;

	if (!r || !env)
		return 0;
	count_end(r, slot->index, family);
	key = key_in(r, OF_REPLY, env, family);
	if (r->conn.reply_port)
		free_reply(&key, slot->index, OF_REPLY, tomb_after(r, &key, env), family);
	if (r->conn.life.flags.masquerade && !r->conn.marks.own) {
		key = key_in(r, OF_MIDDLE, env, family);
		free_reply(&key, slot->index, OF_MIDDLE, 0, family);
	}
	key = key_in(r, OF_CLIENT, env, family);
	count_elsewhere(&key, slot->index / CONN_SLOTS, -1, family);
	count_release(slot->word, family);
	return 0;
}

__noinline int fl_let_go4(const struct conn_slot *slot, const struct conn_env *env)
{
	return let_go(slot, env, FAMILY_IPV4);
}

__noinline int fl_let_go6(const struct conn_slot *slot, const struct conn_env *env)
{
	return let_go(slot, env, FAMILY_IPV6);
}

/* Ends the connection of a slot that this CPU has locked. */
static __always_inline void release_slot(struct conn_slot *slot, const struct conn_env *env,
					 enum family family)
{
	if (family == FAMILY_IPV4)
		fl_let_go4(slot, env);
	else
		fl_let_go6(slot, env);
	set_word(slot, 0, family);
}

static __always_inline bool is_of_copy(const union conn_record *copy, __u32 index,
				       enum family family)
{
	const volatile union conn_record *r = conn_at(index, family);

	return r && r->conn.life.proof == copy->conn.life.proof && r->conn.born == copy->conn.born;
}

/*
 * From now on the record is this CPU's alone. False: it is another connection's by now, whose slot
 * is not locked: its packets on other CPUs would not find it.
 */
static __always_inline bool lock_record(const union conn_record *copy, struct conn_slot *slot,
					enum family family)
{
	read_word(slot, family);
	if (!slot->word || !is_of_copy(copy, slot->index, family) || !lock_slot(slot, family))
		return false;
	if (is_of_copy(copy, slot->index, family))
		return true;
	unlock_slot(slot, family);
	return false;
}

/* Of several that end one connection one does it. */
static __always_inline bool end_record(const union conn_record *copy, struct conn_slot *slot,
				       const struct conn_env *env, enum family family)
{
	if (!lock_record(copy, slot, family))
		return false;
	release_slot(slot, env, family);
	return true;
}

/* The same unless a packet has renewed or changed the connection since the copy was taken. */
static __always_inline bool end_unchanged(const union conn_record *copy, struct conn_slot *slot,
					  const struct conn_env *env, enum family family)
{
	const volatile union conn_record *r = conn_at(slot->index, family);

	if (!lock_record(copy, slot, family))
		return false;
	if (r && r->word[0] == copy->word[0] && r->conn.seen == copy->conn.seen) {
		release_slot(slot, env, family);
		return true;
	}
	unlock_slot(slot, family);
	return false;
}

#endif
