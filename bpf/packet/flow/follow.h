/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a packet changes in the record of its connection. Most change nothing but counters: those of
 * an established connection, within a second. All others go through conn/life.
 */
#ifndef FAIRLEAD_FLOW_FOLLOW_H
#define FAIRLEAD_FLOW_FOLLOW_H

#include "packet/conn/life/follow.h"
#include "packet/flow/known.h"

/* --- usual packets -----------------------------------------------------------------------------
 */

static __always_inline bool may_be_usual(const struct packet *p)
{
	const struct conn *c = &p->conn.conn;

	return c->life.state == CONN_ESTABLISHED && p->wire.protocol != PROTOCOL_SCTP &&
	       p->env.now - c->seen < TICKS_PER_SECOND &&
	       !(p->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST));
}

/* False: it may be forged. */
static __always_inline bool note_usual(const struct packet *p, bool from_backend,
				       enum family family)
{
	const struct conn *c = &p->conn.conn;
	conn_progress own = from_backend ? c->progress_backend : c->progress_client;
	struct conn *record;

	if (p->wire.protocol != PROTOCOL_TCP || p->progress == own)
		return true;
	if (!(p->tcp_flags & TCP_ACK) || !own || !is_near(p->progress >> 16, own >> 16))
		return false;
	record = conn_at(p->slot.index, family);
	if (!record)
		return false;
	if (from_backend)
		record->progress_backend = p->progress;
	else
		record->progress_client = p->progress;
	return true;
}

/* --- the others --------------------------------------------------------------------------------
 */

static __always_inline void set_headers(struct packet *p, bool from_backend)
{
	struct conn_packet *headers = &p->headers;

	headers->from_backend = from_backend;
	headers->tcp_flags = p->tcp_flags;
	headers->chunk = p->chunk;
	headers->progress = p->wire.protocol == PROTOCOL_UDP ? 0 : p->progress;
	headers->syn = 0;
	if (p->wire.protocol == PROTOCOL_TCP)
		headers->syn = p->answered_syn ? p->answered_syn : p->syn;
}

/*
 * A packet of TCP to a backend that is gone begins anew, unless such connections are left alone.
 * What may begin a connection is CLIENT_LATE.
 */
static __always_inline bool is_to_nobody(const struct packet *p, const struct conn_view *v,
					 const struct packet_settings *s)
{
	return p->wire.protocol == PROTOCOL_TCP && s->flags.reset_gone &&
	       v->backend != BACKEND_ACTIVE && v->backend != BACKEND_TERMINATING;
}

/* The word is that of p->conn, if the record still is when it has been read. */
static __always_inline int confirm(struct packet *p, enum family family)
{
	const volatile struct conn *record = conn_at(p->slot.index, family);

	read_word(&p->slot, family);
	if (record && record->life.proof == p->conn.conn.life.proof)
		confirm_slot(&p->slot, family);
	return 0;
}

/* Global, so that it takes no stack beside what calls it. */
__noinline int fl_confirm4(void)
{
	struct packet *p = this_packet();

	return p ? confirm(p, FAMILY_IPV4) : 0;
}

__noinline int fl_confirm6(void)
{
	struct packet *p = this_packet();

	return p ? confirm(p, FAMILY_IPV6) : 0;
}

static __always_inline void confirm_conn(enum family family)
{
	family == FAMILY_IPV4 ? fl_confirm4() : fl_confirm6();
}

static __always_inline __u32 follow_packet(struct packet *p, bool from_backend, enum family family)
{
	const struct packet_settings *s = packet_settings();
	struct conn *record = conn_at(p->slot.index, family);
	struct conn_view view = {.now = p->env.now};
	__u32 effects;

	if (!s || !record)
		return 0;
	if (unlikely(is_dropped(record, p->env.now)))
		return from_backend ? LEAVES : BEGINS;
	view.timeouts = &s->timeout_seconds;
	view.backend = backend_state_of(p, family);
	if (!from_backend && is_to_nobody(p, &view, s))
		return BEGINS;
	set_headers(p, from_backend);
	effects = follow(record, p->conn.conn.life, &p->headers, &view);
	if (effects & (BEGINS | LEAVES))
		return effects;
	record->seen = p->env.now;
	if (!from_backend && record->answers_by != p->answers_by)
		record->answers_by = p->answers_by;
	if (effects & CONFIRMS || is_confirmed(p->conn.conn.life))
		confirm_conn(family);
	return effects;
}

/* enum conn_effect. Global, see backend.h: both sides follow, at both hooks. */
__noinline int fl_follow4(bool from_backend)
{
	struct packet *p = this_packet();

	return p ? follow_packet(p, from_backend, FAMILY_IPV4) : 0;
}

__noinline int fl_follow6(bool from_backend)
{
	struct packet *p = this_packet();

	return p ? follow_packet(p, from_backend, FAMILY_IPV6) : 0;
}

/* Of a packet of p->conn. BEGINS or LEAVES: the record is as it was, and the packet is not its. */
static __always_inline __u32 account(struct packet *p, bool from_backend, enum family family)
{
	__u32 effects = 0;

	if (unlikely(!may_be_usual(p) || !note_usual(p, from_backend, family)))
		effects =
			family == FAMILY_IPV4 ? fl_follow4(from_backend) : fl_follow6(from_backend);
	if (!(effects & (BEGINS | LEAVES)))
		count_packet(p->slot.index, p->length, from_backend, family);
	return effects;
}

#endif
