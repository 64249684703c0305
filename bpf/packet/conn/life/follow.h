/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A record follows the packets of its connection: nothing else changes it once it is filled. */
#ifndef FAIRLEAD_CONN_FOLLOW_H
#define FAIRLEAD_CONN_FOLLOW_H

#include "common/address.h"
#include "packet/conn/life/events.h"

/* What an event makes of `life`, and what else it has for effects. */
struct conn_next {
	__u8 state;
	__u8 before;
	__u8 syn;
	__u8 effects; /* enum conn_effect */
};

union conn_change {
	struct conn_next next;
	__u32 word;
};

static __always_inline __u8 next_of(__u16 cell, __u8 state)
{
	return cell & 0xff ? (cell & 0xff) - 1 : state;
}

/* A union conn_change. Global, see fl_conn_event(). */
__noinline __u32 fl_conn_step(__u64 life_word, __u32 event, __u32 syn)
{
	union conn_word word = {.word = life_word};
	struct conn_life life = word.life;
	__u16 cell = cell_at(life, event, life.state);
	union conn_change change = {
		.next = {.before = life.flags.before, .syn = life.syn, .effects = cell >> 8}};
	struct conn_next *next = &change.next;

	if (next->effects & BEHIND) {
		__u16 behind = cell_at(life, event, next->before);

		next->before = next_of(behind, next->before);
		next->effects |= behind >> 8;
	}
	next->state = next->effects & RESUMES ? next->before : next_of(cell, life.state);
	if (next->state >= CONN_CLOSED_BY_CLIENT && life.state < CONN_CLOSED_BY_CLIENT)
		next->before = life.state;
	if (next->effects & NOTES_SYN)
		next->syn = syn;
	word.life.state = next->state;
	word.life.flags.before = next->before;
	if (!is_confirmed(life) && is_confirmed(word.life))
		next->effects |= CONFIRMS;
	return change.word;
}

/* What a SYN-ACK acknowledges the client goes on from, and the other way round. */
static __always_inline void begin_anew(struct conn *c, struct conn_life life,
				       const struct conn_packet *p)
{
	c->progress_backend = p->progress;
	c->progress_client =
		life.protocol == PROTOCOL_TCP ? p->progress << 16 | p->progress >> 16 : 0;
}

/* Of the backend even if it is not believed: by it a client that catches up is known. */
static __always_inline void note_progress(struct conn *c, const struct conn_packet *p,
					  enum conn_event event)
{
	if ((p->tcp_flags & (TCP_SYN | TCP_RST | TCP_ACK)) != TCP_ACK)
		return;
	if (p->from_backend && c->progress_backend != p->progress)
		c->progress_backend = p->progress;
	if (!p->from_backend && event && c->progress_client != p->progress)
		c->progress_client = p->progress;
}

/* The first question is what NEW stands for. */
static __always_inline void note_question(struct conn *c, struct conn_life life, bool is_answer)
{
	if (!is_answer)
		c->questions += 1;
	else if (life.state != CONN_NEW && c->questions)
		c->questions -= 1;
}

static __always_inline void note(struct conn *c, struct conn_life life, const struct conn_packet *p,
				 enum conn_event event, __u32 effects)
{
	if (effects & ANEW) {
		begin_anew(c, life, p);
	} else if (effects & TAKES) {
		if (life.protocol == PROTOCOL_TCP || !c->progress_client)
			c->progress_client = p->progress;
	} else if (life.protocol == PROTOCOL_TCP) {
		note_progress(c, p, event);
	} else if (life.protocol == PROTOCOL_UDP) {
		note_question(c, life, p->from_backend);
	}
}

#define CONN_ATTEMPTS 2

/*
 * Changes the record, whose `life` the caller has read and proved, as the packet says. Returns
 * effects. Another CPU may have a packet of the other side meanwhile: the second one sees what
 * the first one made. LEAVES also if the record has become another connection's.
 */
static __always_inline __u32 follow(struct conn *c, struct conn_life life,
				    const struct conn_packet *p, const struct conn_view *v)
{
	union conn_word old = {.life = life}, next, found;
	union conn_change change;
	enum conn_event event;

	for (int i = 0; i < CONN_ATTEMPTS; i++) {
		HIDE(old.word); /* as one word: its parts would take much of the stack */
		event = event_of(c, old.life, p, v);
		change.word = fl_conn_step(old.word, event, p->syn);
		next = old;
		next.life.state = change.next.state;
		next.life.flags.before = change.next.before;
		next.life.syn = change.next.syn;
		HIDE(next.word);
		found = old;
		if (next.word != old.word)
			found.word =
				__sync_val_compare_and_swap((__u64 *)&c->life, old.word, next.word);
		if (found.word == old.word) {
			note(c, life, p, event, change.next.effects);
			return change.next.effects;
		}
		if (found.life.proof != life.proof || found.life.generation != life.generation)
			return LEAVES;
		old = found;
	}
	return 0;
}

#endif
