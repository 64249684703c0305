/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What packets do to a connection. */
#ifndef FAIRLEAD_TEST_CONN_ACT_H
#define FAIRLEAD_TEST_CONN_ACT_H

#include "test/conn/check.h"

/* Locks the slot of the connection that was found; false: it is another one's by now. */
static __always_inline bool lock_found(struct work *w, enum family family)
{
	if (!lock_slot(&w->slot, family))
		return false;
	if (read_record(w->slot.index, &w->again, family) &&
	    w->again.conn.born == w->copy.conn.born && is_of_key(&w->again, w->id))
		return true;
	unlock_slot(&w->slot, family);
	return false;
}

static __always_inline void end(struct work *w, enum family family)
{
	if (!lock_found(w, family))
		return;
	if (w->again.conn.spare)
		add_sure(w->id);
	release_slot(&w->slot, &w->env, family);
	COUNT(ended, 1);
}

/* From now on it may not be evicted. */
static __always_inline void make_sure(struct work *w, enum family family)
{
	struct conn *c = conn_at(w->slot.index, family);

	if (!c || !lock_found(w, family))
		return;
	if (w->slot.word & CONN_HALF) {
		c->spare = 1;
		add_sure(w->id);
		COUNT_CONN(half_gone, family);
		COUNT(confirmed, 1);
	}
	set_word(&w->slot, w->slot.word & CONN_TAG, family);
}

/* The same connection begins anew, with its port. */
static __always_inline void renew(struct work *w, enum family family)
{
	__u32 born = bpf_get_prandom_u32();
	struct conn *c = &w->again.conn;

	if (!lock_found(w, family))
		return;
	c->born = born;
	c->life.generation = born ^ w->id;
	c->seen = w->env.now;
	write_record(w->slot.index, &w->again, &w->env, family);
	unlock_slot(&w->slot, family);
	COUNT(renewed, 1);
}

/* As a late packet does, without a lock. */
static __always_inline void change_state(struct work *w, enum family family)
{
	union conn_record *r = conn_at(w->slot.index, family);
	__u64 life = w->copy.word[0];

	w->copy.conn.life.flags.before++;
	if (r)
		__sync_val_compare_and_swap(&r->word[0], life, w->copy.word[0]);
}

static __always_inline bool claim_port(struct work *w, enum family family)
{
	w->copy.conn.reply_port = any_port();
	write_reply(w->slot.index, &w->copy, family);
	if (claim_reply(&w->copy, w->slot.index, &w->env, family) == CLAIM_MADE)
		return true;
	COUNT(taken, 1);
	w->copy.conn.reply_port = 0;
	write_reply(w->slot.index, &w->copy, family);
	return false;
}

/* As at egress of a masqueraded connection. Another CPU may have done it before the lock. */
static __always_inline void take_port(struct work *w, enum family family)
{
	if (w->copy.conn.reply_port || !lock_found(w, family))
		return;
	w->copy = w->again;
	if (!w->copy.conn.reply_port) {
		claim_port(w, family);
		seal_record(w->slot.index, &w->copy, &w->env, family);
	}
	unlock_slot(&w->slot, family);
}

static __always_inline void begin(struct work *w, enum family family)
{
	switch (begin_slot(&w->tuple, CONN_HALF, &w->slot, &w->env, family)) {
	case BEGIN_DOUBLED:
		COUNT(doubled, 1);
		return;
	case BEGIN_NO_ROOM:
		COUNT(no_room, 1);
		return;
	default:
		break;
	}
	make_record(w, &w->copy, family);
	write_record(w->slot.index, &w->copy, &w->env, family);
	if (bpf_get_prandom_u32() & 1) {
		if (!claim_port(w, family)) {
			cancel_slot(&w->slot, &w->tuple, &w->env, family);
			return;
		}
		seal_record(w->slot.index, &w->copy, &w->env, family);
	}
	publish_slot(&w->slot, family);
	COUNT(begun, 1);
}

static __always_inline void use(struct work *w, enum family family)
{
	if (!is_of_key(&w->copy, w->id))
		COUNT(foreign, 1);
	check_reply(w, family);
	check_twice(w, family);
	switch (bpf_get_prandom_u32() & 7) {
	case 0:
	case 1:
		end(w, family);
		return;
	case 2:
		make_sure(w, family);
		return;
	case 3:
		confirm_slot(&w->slot, family);
		return;
	case 4:
		renew(w, family);
		return;
	case 5:
		change_state(w, family);
		return;
	default:
		take_port(w, family);
	}
}

#endif
