/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection begins, at ingress: select.h has chosen its backend, and its record is made. The
 * SNAT address follows at egress, where the device is known.
 */
#ifndef FAIRLEAD_FLOW_BEGIN_H
#define FAIRLEAD_FLOW_BEGIN_H

#include "packet/conn/client/begin.h"
#include "packet/flow/request.h"
#include "packet/snat/ports.h"

/* --- the record --------------------------------------------------------------------------------
 */

static __always_inline bool is_hairpin(const struct packet *p)
{
	return is_same_address(&p->wire.source, &p->choice.address);
}

/* Of the request on the wire, to p->choice. No reply is claimed yet. */
static __always_inline void fill_conn(struct packet *p, enum family family)
{
	const struct choice *choice = &p->choice;
	struct conn *c = &p->conn.conn;

	__builtin_memset(&p->conn, 0, sizeof(p->conn));
	c->life.flags.masquerade = choice->masquerade | is_hairpin(p);
	c->life.flags.of_stale = p->of_stale;
	c->life.flags.in_geneve = p->in_geneve;
	c->life.generation = choice->generation;
	c->life.syn = p->syn;
	c->life.protocol = p->wire.protocol;
	c->backend_id = choice->backend_id;
	c->frontend_id = choice->frontend_id;
	c->seen = p->env.now;
	c->born = p->env.now;
	c->answers_by = p->answers_by;
	/* One that is no SYN may be forged. */
	c->progress_client = p->syn ? p->progress : 0;
	c->marks.fresh = p->syn && p->former_backend != choice->backend_id;
	c->client_port = p->wire.source_port;
	c->frontend_port = p->wire.destination_port;
	c->backend_port = choice->port;
	p->backend = choice->address;
	put_conn_address(&p->conn, CONN_CLIENT, &p->wire.source, family);
	put_conn_address(&p->conn, CONN_FRONTEND, &p->wire.destination, family);
	put_conn_address(&p->conn, CONN_BACKEND, &p->backend, family);
	if (!c->life.flags.masquerade)
		put_conn_address(&p->conn, CONN_REPLY, &p->wire.source, family);
}

/* Global, so that it takes no stack beside what follows. */
__noinline int fl_make_conn4(void)
{
	struct packet *p = this_packet();

	if (p)
		fill_conn(p, FAMILY_IPV4);
	return 0;
}

__noinline int fl_make_conn6(void)
{
	struct packet *p = this_packet();

	if (p)
		fill_conn(p, FAMILY_IPV6);
	return 0;
}

static __always_inline void make_conn(enum family family)
{
	family == FAMILY_IPV4 ? fl_make_conn4() : fl_make_conn6();
}

/* --- the client's port, as the backend or SNAT sees it -----------------------------------------
 */

/* The record is written. Nobody else may have the answers to this port. */
static __always_inline bool take_client_port(struct packet *p, __u16 port, enum family family)
{
	struct conn *c = &p->conn.conn;
	enum conn_side side = OF_REPLY;

	if (is_hairpin(p) && port == c->backend_port)
		return false;
	c->middle_port = port;
	if (c->life.flags.masquerade)
		side = OF_MIDDLE;
	else
		c->reply_port = port;
	write_record(p->slot.index, &p->conn, &p->env, family);
	return claim_side(&p->conn, p->slot.index, side, &p->env, family) == CLAIM_MADE;
}

__noinline int fl_take_client4(__u32 port)
{
	struct packet *p = this_packet();

	return p ? take_client_port(p, port, FAMILY_IPV4) : 0;
}

__noinline int fl_take_client6(__u32 port)
{
	struct packet *p = this_packet();

	return p ? take_client_port(p, port, FAMILY_IPV6) : 0;
}

static __always_inline bool take(__u32 port, enum family family)
{
	return family == FAMILY_IPV4 ? fl_take_client4(port) : fl_take_client6(port);
}

/* Ends the connection that has this port of the client, if it is over. */
static __always_inline bool free_port(struct packet *p, __u16 port, enum family family)
{
	p->conn.conn.middle_port = port;
	get_tuple(&p->conn, OF_MIDDLE, &p->back, family);
	return find_other(p, family) && is_over(p, &p->other) && end_other(family);
}

__noinline int fl_free_port4(__u32 port)
{
	struct packet *p = this_packet();

	return p ? free_port(p, port, FAMILY_IPV4) : 0;
}

__noinline int fl_free_port6(__u32 port)
{
	struct packet *p = this_packet();

	return p ? free_port(p, port, FAMILY_IPV6) : 0;
}

/*
 * A port of a connection that has ended, instead of waiting until it is swept. Only if no other is
 * free: the backend may still have the former connection in TIME-WAIT.
 */
static __always_inline bool take_ended_client_port(struct packet *p, __u64 hash, enum family family)
{
	for (__u32 probe = 0; probe <= PORT_PROBES; probe++) {
		__u16 port = probe ? probed_port(hash, probe - 1) : p->wire.source_port;

		if ((family == FAMILY_IPV4 ? fl_free_port4(port) : fl_free_port6(port)) &&
		    take(port, family)) {
			if (probe)
				count_reason(REASON_CLIENT_PORT_CHANGED);
			return true;
		}
	}
	return false;
}

/* The ports of SCTP cannot change: its CRC covers them. */
static __always_inline bool take_any_client_port(struct packet *p, enum family family)
{
	__u64 hash = hash_tuple(p->env.secret, &p->wire, family);

	if (take(p->wire.source_port, family))
		return true;
	if (p->wire.protocol == PROTOCOL_SCTP)
		return false;
	for (__u32 probe = 0; probe < PORT_PROBES; probe++) {
		if (take(probed_port(hash, probe), family)) {
			count_reason(REASON_CLIENT_PORT_CHANGED);
			return true;
		}
	}
	return take_ended_client_port(p, hash, family);
}

/*
 * A connection that begins anew gets its SNAT port again, as the client has its own. A backend that
 * has the former one in TIME-WAIT answers the SYN by an ACK; the client ends that by a RST, and
 * sends the SYN again at once: from another port it could meet the next TIME-WAIT.
 */
static __always_inline bool set_former_port(struct packet *p, enum family family)
{
	struct conn *c = &p->conn.conn;

	if (!c->life.flags.masquerade || !p->former_port || p->former_backend != c->backend_id)
		return false;
	c->reply_port = p->former_port;
	put_conn_address(&p->conn, CONN_REPLY, &p->former, family);
	return true;
}

static __always_inline void keep_former_port(struct packet *p, enum family family)
{
	if (!set_former_port(p, family))
		return;
	write_record(p->slot.index, &p->conn, &p->env, family);
	if (claim_reply(&p->conn, p->slot.index, &p->env, family) == CLAIM_MADE)
		return;
	p->conn.conn.reply_port = 0;
	write_record(p->slot.index, &p->conn, &p->env, family);
}

__noinline int fl_keep_former4(void)
{
	struct packet *p = this_packet();

	if (p)
		keep_former_port(p, FAMILY_IPV4);
	return 0;
}

__noinline int fl_keep_former6(void)
{
	struct packet *p = this_packet();

	if (p)
		keep_former_port(p, FAMILY_IPV6);
	return 0;
}

/* --- into the table ----------------------------------------------------------------------------
 */

/* A slot for the tuple, which is BUSY, in p->slot. */
static __always_inline int take_slot_for(struct packet *p, const struct tuple *t,
					 enum family family)
{
	return begin_slot(t, CONN_HALF, &p->slot, &p->env, family);
}

__noinline int fl_cancel4(void)
{
	struct packet *p = this_packet();

	if (p)
		cancel_slot(&p->slot, &p->wire, &p->env, FAMILY_IPV4);
	return 0;
}

__noinline int fl_cancel6(void)
{
	struct packet *p = this_packet();

	if (p)
		cancel_slot(&p->slot, &p->wire, &p->env, FAMILY_IPV6);
	return 0;
}

static __always_inline int put_conn_of(const struct tuple *t, enum family family)
{
	struct packet *p = this_packet();
	int begun;

	if (!p || !t)
		return BEGIN_NO_ROOM;
	begun = take_slot_for(p, t, family);
	if (begun != BEGIN_MADE)
		return begun;
	write_record(p->slot.index, &p->conn, &p->env, family);
	if (p->conn.conn.reply_port &&
	    claim_reply(&p->conn, p->slot.index, &p->env, family) != CLAIM_MADE) {
		cancel_slot(&p->slot, t, &p->env, family);
		return BEGIN_NO_ROOM;
	}
	publish_slot(&p->slot, family);
	if (p->conn.conn.backend_id)
		fl_count_conn(p->conn.conn.backend_id, p->conn.conn.born);
	return BEGIN_MADE;
}

/* Global, see backend.h. */
__noinline int fl_put_conn4(const struct tuple *t)
{
	return put_conn_of(t, FAMILY_IPV4);
}

__noinline int fl_put_conn6(const struct tuple *t)
{
	return put_conn_of(t, FAMILY_IPV6);
}

/* p->conn, whose reply tuple is known, by the tuple of its requests. */
static __always_inline enum conn_begin put_conn(const struct tuple *t, enum family family)
{
	return family == FAMILY_IPV4 ? fl_put_conn4(t) : fl_put_conn6(t);
}

/* What select() has chosen. Others begin without a choice, see choose_destination(). */
static __always_inline void count_begun(const struct packet *p)
{
	if (p->choice.verdict == VERDICT_TRANSLATE)
		count_choice(&p->choice);
}

/* Its first packet is counted. */
static __always_inline int show_conn(struct packet *p, enum family family)
{
	mark_frontend(p, family);
	mark_backend(p, family);
	publish_slot(&p->slot, family);
	count_begun(p);
	count_packet(p->slot.index, p->length, false, family);
	fl_count_conn(p->conn.conn.backend_id, p->conn.conn.born);
	return 0;
}

__noinline int fl_show_conn4(void)
{
	struct packet *p = this_packet();

	return p ? show_conn(p, FAMILY_IPV4) : 0;
}

__noinline int fl_show_conn6(void)
{
	struct packet *p = this_packet();

	return p ? show_conn(p, FAMILY_IPV6) : 0;
}

/*
 * The packet goes to the backend, or is dropped: without a record replies would be wrong. If
 * another CPU begins the same connection, the packet waits for that, and is one of it. It is
 * dropped if that takes too long, if that one is over, or of direct return: to wrap it here, both
 * would need more stack than there is.
 */
static __always_inline int begin_conn(hook_context *ctx, struct packet *p, enum family family)
{
	int begun;

	set_now(p);
	make_conn(family);
	if (p->wire.protocol == PROTOCOL_SCTP && p->choice.port != p->wire.destination_port)
		return unanswered(REASON_DROPPED_NO_PORT);
	begun = take_slot_for(p, &p->wire, family);
	if (unlikely(begun == BEGIN_DOUBLED)) {
		int action = request(ctx, family);

		return action < UNDECIDED || action == LEFT ? action
							    : unanswered(REASON_DROPPED_BUSY);
	}
	if (begun != BEGIN_MADE)
		return unanswered(REASON_DROPPED_NO_FLOW);
	if (!take_any_client_port(p, family)) {
		family == FAMILY_IPV4 ? fl_cancel4() : fl_cancel6();
		return unanswered(REASON_DROPPED_NO_PORT);
	}
	if (unlikely(p->former_port))
		family == FAMILY_IPV4 ? fl_keep_former4() : fl_keep_former6();
	family == FAMILY_IPV4 ? fl_show_conn4() : fl_show_conn6();
	return to_backend(ctx, p, family);
}

__noinline int fl_begin4(hook_context *ctx)
{
	struct packet *p = this_packet();

	return p ? begin_conn(ctx, p, FAMILY_IPV4) : LEAVE;
}

__noinline int fl_begin6(hook_context *ctx)
{
	struct packet *p = this_packet();

	return p ? begin_conn(ctx, p, FAMILY_IPV6) : LEAVE;
}

#endif
