/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Looks for the SNAT port of a connection: its client's own, then free ones, then one that another
 * connection no longer needs.
 */
#ifndef FAIRLEAD_SEARCH_H
#define FAIRLEAD_SEARCH_H

#include "packet/snat/ports.h"
#include "packet/snat/snat.h"

/* --- one port ----------------------------------------------------------------------------------
 */

/*
 * Of the connections that might give up their port: the one that has ended, or begun, first. The
 * claim has met this one. What is noted, without a backend, may be a connection that lives.
 */
static __always_inline void note_candidate(struct packet *p, enum family family)
{
	const struct conn *c = &p->other.conn;
	enum conn_liveness live;
	__u16 port = p->back.destination_port;

	if (!p->env.claim.holder || !read_record(p->env.claim.holder - 1, &p->other, family))
		return;
	live = liveness(p, &p->other);
	if (live >= CONN_ENDED) {
		if (!p->ended_port || (__s32)(p->ended_seen - c->seen) > 0) {
			p->ended_port = port;
			p->ended_seen = c->seen;
		}
	} else if (live == CONN_HALF_OPEN && c->backend_id && !awaits_answer(c, &p->env)) {
		if (!p->half_open_port || (__s32)(p->half_open_seen - c->seen) > 0) {
			p->half_open_port = port;
			p->half_open_seen = c->seen;
		}
	}
}

/*
 * A connection of the node that begins on another CPU meanwhile looks for the reply tuple when it
 * has its port, and this one for the socket when it has the tuple: one of the two sees the other.
 */
static __always_inline bool is_anothers(hook_context *ctx, struct packet *p, enum family family)
{
	return is_of_socket(ctx, p, family) ||
	       is_node_port(p, &p->back.destination, p->back.destination_port, family);
}

__noinline int fl_is_anothers4(hook_context *ctx)
{
	struct packet *p = this_packet();

	return p && is_anothers(ctx, p, FAMILY_IPV4);
}

__noinline int fl_is_anothers6(hook_context *ctx)
{
	struct packet *p = this_packet();

	return p && is_anothers(ctx, p, FAMILY_IPV6);
}

static __always_inline void give_up_port(struct packet *p, enum family family)
{
	struct conn_key key = key_of(&p->back, p->env.secret, reply_buckets(family), family);

	free_reply(&key, p->slot.index, OF_REPLY, 0, family);
}

/* The record of p->conn, whose slot is BUSY, gets the port of p->back if nobody else has it. */
static __always_inline bool take_snat_port(hook_context *ctx, struct packet *p, enum family family)
{
	enum conn_claim claim;

	p->conn.conn.reply_port = p->back.destination_port;
	write_reply(p->slot.index, &p->conn, family);
	claim = claim_reply(&p->conn, p->slot.index, &p->env, family);
	if (claim == CLAIM_TAKEN)
		note_candidate(p, family);
	if (claim != CLAIM_MADE)
		return false;
	if (!(family == FAMILY_IPV4 ? fl_is_anothers4(ctx) : fl_is_anothers6(ctx)))
		return true;
	give_up_port(p, family);
	return false;
}

__noinline int fl_take_snat4(hook_context *ctx, __u32 port)
{
	struct packet *p = this_packet();

	if (!p)
		return false;
	p->back.destination_port = port;
	return take_snat_port(ctx, p, FAMILY_IPV4);
}

__noinline int fl_take_snat6(hook_context *ctx, __u32 port)
{
	struct packet *p = this_packet();

	if (!p)
		return false;
	p->back.destination_port = port;
	return take_snat_port(ctx, p, FAMILY_IPV6);
}

static __always_inline bool take_port(hook_context *ctx, __u16 port, enum family family)
{
	return family == FAMILY_IPV4 ? fl_take_snat4(ctx, port) : fl_take_snat6(ctx, port);
}

/* --- ports of others ---------------------------------------------------------------------------
 */

/*
 * Ends the connection of a port that was met in the search. False: by now another connection, which
 * has met it on another CPU, has the port.
 */
static __always_inline bool end_met(struct packet *p, bool has_ended, enum family family)
{
	if (!find_other(p, family))
		return true;
	if (has_ended ? !is_over(p, &p->other)
		      : liveness(p, &p->other) != CONN_HALF_OPEN ||
				p->other.conn.seen != p->half_open_seen)
		return false;
	return end_other(family);
}

__noinline int fl_end_met4(__u32 port, bool has_ended)
{
	struct packet *p = this_packet();

	if (!p)
		return false;
	p->back.destination_port = port;
	return end_met(p, has_ended, FAMILY_IPV4);
}

__noinline int fl_end_met6(__u32 port, bool has_ended)
{
	struct packet *p = this_packet();

	if (!p)
		return false;
	p->back.destination_port = port;
	return end_met(p, has_ended, FAMILY_IPV6);
}

/* A port that was met in the search, instead of waiting for the time of its connection to run out.
 */
static __always_inline bool take_from_other(hook_context *ctx, __u16 port, bool has_ended,
					    enum family family)
{
	return port &&
	       (family == FAMILY_IPV4 ? fl_end_met4(port, has_ended)
				      : fl_end_met6(port, has_ended)) &&
	       take_port(ctx, port, family);
}

/*
 * Only if no port is free: the backend may have a connection that has ended in TIME-WAIT, as
 * nf_conntrack drops closing entries early. After that the port of a half-open connection: a flood
 * of them would have all.
 */
static __always_inline bool take_held_port(hook_context *ctx, struct packet *p, enum family family)
{
	if (take_from_other(ctx, p->ended_port, true, family))
		return true;
	if (!take_from_other(ctx, p->half_open_port, false, family))
		return false;
	count_reason(REASON_HALF_OPEN_EVICTED);
	return true;
}

/* --- the search --------------------------------------------------------------------------------
 */

/*
 * As many tries as nf_nat makes. The first half of those beside the node's own ports is the same
 * for each packet of the connection. When its first packet is sent again, the others are new. If
 * 60,000 of the 64,512 ports are taken, one connection of a thousand finds none.
 */
#define TRIES_OF_CALL 16
#define CALLS_BESIDE  2
#define CALLS	      8

/* Programs that use another table give the others meanwhile. */
static __always_inline bool is_given_here(__u16 port)
{
	const struct table_phase *phase = table_phase();

	return !phase || !phase->ports || phase->ports == (port & 1 ? PORTS_ODD : PORTS_EVEN);
}

static __always_inline bool may_be_given(__u16 port)
{
	return !is_kept_port(port) && is_given_here(port);
}

/* 0: it may not be given. */
__noinline int fl_nth_port(__u64 hash, __u32 n)
{
	__u32 at = nth_try(hash, n);
	__u16 port = n < CALLS_BESIDE * TRIES_OF_CALL ? fl_port_beside(at) : fl_port_at(at);

	return may_be_given(port) ? port : 0;
}

static __always_inline bool search_port(hook_context *ctx, struct packet *p, __u32 call,
					enum family family)
{
	__u64 hash = hash_tuple(p->env.secret, &p->wire, family) + (call ? (__u64)p->now << 32 : 0);

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < TRIES_OF_CALL; i++) {
		__u32 port = fl_nth_port(hash, call * TRIES_OF_CALL + i);

		if (port && take_port(ctx, port, family))
			return true;
	}
	return false;
}

/* True: the connection has the port of p->back. */
__noinline int fl_search_port4(hook_context *ctx, __u32 call)
{
	struct packet *p = this_packet();

	return p && search_port(ctx, p, call, FAMILY_IPV4);
}

__noinline int fl_search_port6(hook_context *ctx, __u32 call)
{
	struct packet *p = this_packet();

	return p && search_port(ctx, p, call, FAMILY_IPV6);
}

/*
 * The node may give such a port to a connection of its own to the same backend later, which then
 * gets another one, see own.h. Better is a port that it never gives.
 */
static __always_inline bool is_local_port(const struct packet_settings *s, __u16 port)
{
	return port >= s->local_first && port <= s->local_last;
}

static __always_inline bool take_any_port(hook_context *ctx, struct packet *p, enum family family)
{
	const struct packet_settings *s = packet_settings();
	__u16 own = p->wire.source_port;

	if (!s)
		return false;
	p->ended_port = 0;
	p->half_open_port = 0;
	if (p->wire.protocol == PROTOCOL_SCTP)
		return take_port(ctx, own, family);
	/* Port 0 of UDP asks for no answer, and stands for none in the record. */
	if (own && !is_local_port(s, own) && may_be_given(own) && take_port(ctx, own, family))
		return true;
	for (__u32 call = 0; call < CALLS; call++) {
		if (family == FAMILY_IPV4 ? fl_search_port4(ctx, call) : fl_search_port6(ctx, call))
			return true;
	}
	if (own && is_local_port(s, own) && may_be_given(own) && take_port(ctx, own, family))
		return true;
	return take_held_port(ctx, p, family);
}

/* A packet of the connection may change its word each time. */
#define LOCK_ATTEMPTS 3

/* --- the connection ----------------------------------------------------------------------------
 */

/* The slot of p->conn is BUSY: no packet of the connection on another CPU chooses, too. */
static __always_inline bool choose_locked(hook_context *ctx, struct packet *p, enum family family)
{
	if (!set_snat_address(ctx, p, family)) {
		count_reason(REASON_DROPPED_NO_ADDRESS);
		return false;
	}
	put_conn_address(&p->conn, CONN_REPLY, &p->back.destination, family);
	if (!take_any_port(ctx, p, family)) {
		count_reason(REASON_DROPPED_NO_PORT);
		p->conn.conn.reply_port = 0;
		write_reply(p->slot.index, &p->conn, family);
		return false;
	}
	set_mark(p, MARKS_INGRESS, &p->back.destination, SNAT_PORTS, family);
	return true;
}

/* Another CPU has had the slot. True: p->conn is its connection still, as that has left it. */
static __always_inline bool read_again(struct packet *p, enum family family)
{
	get_tuple(&p->conn, OF_CLIENT, &p->back, family);
	return await_of(p->slot.index, OF_CLIENT, &p->back, &p->env, &p->conn, family);
}

__noinline int fl_read_again4(void)
{
	struct packet *p = this_packet();

	return p && read_again(p, FAMILY_IPV4);
}

__noinline int fl_read_again6(void)
{
	struct packet *p = this_packet();

	return p && read_again(p, FAMILY_IPV6);
}

/* False: another CPU has locked it, or had, and has chosen if p->conn has a port by now. */
static __always_inline bool lock_to_choose(struct packet *p, enum family family)
{
	for (int i = 0; i < LOCK_ATTEMPTS; i++) {
		if (family == FAMILY_IPV4 ? fl_lock_conn4() : fl_lock_conn6())
			return true;
		if (family == FAMILY_IPV4 ? !fl_read_again4() : !fl_read_again6())
			p->conn.conn.reply_port = 0;
		else if (!p->conn.conn.reply_port)
			continue;
		return false;
	}
	return false;
}

/* True: p->conn has its SNAT address and port, which another CPU may have chosen meanwhile. */
static __always_inline bool choose_snat(hook_context *ctx, struct packet *p, enum family family)
{
	bool is_chosen;

	if (!lock_to_choose(p, family)) {
		if (!p->conn.conn.reply_port)
			count_reason(REASON_DROPPED_BUSY);
		return p->conn.conn.reply_port;
	}
	read_record(p->slot.index, &p->conn, family);
	is_chosen = p->conn.conn.reply_port || choose_locked(ctx, p, family);
	seal_record(p->slot.index, &p->conn, &p->env, family);
	unlock_slot(&p->slot, family);
	return is_chosen;
}

__noinline int fl_choose_snat4(hook_context *ctx)
{
	struct packet *p = this_packet();

	return p && choose_snat(ctx, p, FAMILY_IPV4);
}

__noinline int fl_choose_snat6(hook_context *ctx)
{
	struct packet *p = this_packet();

	return p && choose_snat(ctx, p, FAMILY_IPV6);
}

#endif
