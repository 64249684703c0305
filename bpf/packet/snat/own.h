/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What this node sends from its own address to a backend: its own connections, and what netfilter
 * has masqueraded for pods. Connections of the table may have any port of the node, so that an
 * answer could be either's.
 *
 * - A connection of the node from a port that a connection of the table has gets a record, too, and
 *   another port.
 * - A connection of a pod notes its port, because no socket of the node has it. No other gets it
 *   until 20 seconds after the latest answer.
 * - A datagram from the number of a NodePort notes its port: else what comes back would be taken
 * for a request. Of TCP only a SYN begins a connection there.
 *
 * Linux has given the port without asking: before, and after, connections of the table can have it.
 */
#ifndef FAIRLEAD_OWN_H
#define FAIRLEAD_OWN_H

#include "packet/flow/egress.h"
#include "packet/flow/reply.h"

/*
 * A half-open connection to the backend as a frontend of itself: nothing is translated, and nobody
 * else gets the port. One that is there is renewed.
 */
static __always_inline int note_own(struct packet *p, enum family family)
{
	struct choice *c = &p->choice;

	set_now(p);
	if (find_request(p, family)) {
		renew(p, family);
		return 0;
	}
	__builtin_memset(c, 0, sizeof(*c));
	c->address = p->wire.destination;
	c->port = p->wire.destination_port;
	make_conn(family);
	p->conn.conn.life.flags.masquerade = 0;
	p->conn.conn.middle_port = p->wire.source_port;
	p->conn.conn.reply_port = p->wire.source_port;
	put_conn_address(&p->conn, CONN_REPLY, &p->wire.source, family);
	set_mark(p, MARKS_INGRESS, &p->wire.source, SNAT_PORTS, family);
	put_conn(&p->wire, family);
	return 0;
}

__noinline int fl_note_own4(void)
{
	struct packet *p = this_packet();

	return p ? note_own(p, FAMILY_IPV4) : 0;
}

__noinline int fl_note_own6(void)
{
	struct packet *p = this_packet();

	return p ? note_own(p, FAMILY_IPV6) : 0;
}

static __always_inline int note_port(enum family family)
{
	return family == FAMILY_IPV4 ? fl_note_own4() : fl_note_own6();
}

/* A translated reply that leaves by a second device has a connection. */
static __always_inline bool is_of_node_port(struct packet *p, enum family family)
{
	if (!is_node_port(p, &p->wire.source, p->wire.source_port, family))
		return false;
	set_now(p);
	reverse(&p->wire, &p->back);
	return !find_client(&p->back, &p->env, &p->other, &p->other_slot, family);
}

__noinline int fl_is_of_node_port4(void)
{
	struct packet *p = this_packet();

	return p && is_of_node_port(p, FAMILY_IPV4);
}

__noinline int fl_is_of_node_port6(void)
{
	struct packet *p = this_packet();

	return p && is_of_node_port(p, FAMILY_IPV6);
}

static __always_inline void note_own_datagram(enum family family)
{
	if (family == FAMILY_IPV4 ? fl_is_of_node_port4() : fl_is_of_node_port6())
		note_port(family);
}

/* --- connections from a port of another one ----------------------------------------------------
 */

enum met {
	MEETS_NOBODY,
	MEETS_NEW,  /* nobody: its port is to be noted */
	MEETS_CONN, /* p->other has its port */
};

static __always_inline bool is_of_own_socket(const struct __sk_buff *skb, const struct packet *p)
{
	struct bpf_sock *sk = skb->sk ? bpf_sk_fullsock(skb->sk) : NULL;

	return sk && sk->src_port == p->wire.source_port;
}

static __always_inline enum met meet(struct __sk_buff *skb, struct packet *p, enum family family)
{
	bool is_own = is_of_own_socket(skb, p);

	set_now(p);
	reverse(&p->wire, &p->back);
	if (!find_other(p, family) || is_middle(&p->other, &p->back, family))
		return p->syn && !is_own ? MEETS_NEW : MEETS_NOBODY;
	/* A datagram of a connection that leaves by a second device, for all that is known. */
	if (!p->syn && !is_own)
		return MEETS_NOBODY;
	/* So does the SYN of the connection. That of another one may look like it, see syn_at(). */
	if (!is_own && p->other.conn.life.syn == p->syn)
		return MEETS_NOBODY;
	if (is_over(p, &p->other) && end_other(family))
		return MEETS_NOBODY;
	return MEETS_CONN;
}

__noinline int fl_meet4(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? meet(skb, p, FAMILY_IPV4) : MEETS_NOBODY;
}

__noinline int fl_meet6(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? meet(skb, p, FAMILY_IPV6) : MEETS_NOBODY;
}

/*
 * A connection through a frontend that is the backend itself. Its requests do not come in: egress
 * follows them.
 */
static __always_inline int begin_own(struct packet *p, enum family family)
{
	choose_destination(p);
	make_conn(family);
	p->conn.conn.life.flags.masquerade = 1;
	p->conn.conn.marks.own = 1;
	p->conn.conn.middle_port = p->wire.source_port;
	set_former_port(p, family);
	/* Another CPU may have begun it: then it is found. */
	if (put_conn(&p->wire, family) == BEGIN_NO_ROOM)
		return unanswered(REASON_DROPPED_NO_FLOW);
	return BEGINS_HERE;
}

__noinline int fl_begin_own4(void)
{
	struct packet *p = this_packet();

	return p ? begin_own(p, FAMILY_IPV4) : UNDECIDED;
}

__noinline int fl_begin_own6(void)
{
	struct packet *p = this_packet();

	return p ? begin_own(p, FAMILY_IPV6) : UNDECIDED;
}

/* BEGINS_HERE: the packet has a connection by now, which gives it another port. */
static __always_inline int own(struct __sk_buff *skb, enum family family)
{
	int met = family == FAMILY_IPV4 ? fl_meet4(skb) : fl_meet6(skb);

	if (met == MEETS_NEW)
		note_port(family);
	if (met != MEETS_CONN)
		return UNDECIDED;
	return family == FAMILY_IPV4 ? fl_begin_own4() : fl_begin_own6();
}

/* --- connections that have another port ---------------------------------------------------------
 */

/* Nobody but the node itself sends such a SYN: its kernel has ended the connection before. */
static __always_inline bool begins_anew(const struct packet *p)
{
	const struct conn_life *life = &p->conn.conn.life;

	return p->syn && p->syn != life->syn && life->state != CONN_NEW;
}

/* A request on its way out, of a connection that is marked as the node's own. */
static __always_inline int follow_own(hook_context *ctx, enum family family)
{
	struct packet *p = this_packet();

	if (!p || !find_request(p, family) || !p->conn.conn.marks.own)
		return UNDECIDED;
	p->answers_by = 0;
	if (begins_anew(p) || account(p, false, family) & BEGINS) {
		note_former(p, family);
		end_conn(family);
		return UNDECIDED;
	}
	return masquerade(ctx, p, family);
}

__noinline int fl_follow_own4(hook_context *ctx)
{
	return follow_own(ctx, FAMILY_IPV4);
}

__noinline int fl_follow_own6(hook_context *ctx)
{
	return follow_own(ctx, FAMILY_IPV6);
}

static __always_inline int go_on_own(hook_context *ctx, struct packet *p, enum family family)
{
	int action = family == FAMILY_IPV4 ? fl_follow_own4(ctx) : fl_follow_own6(ctx);

	return unlikely(action == NEEDS_SNAT) ? begin_snat(ctx, p, family) : action;
}

/* From an address that connections have SNAT ports of. */
static __always_inline bool is_from_node(const struct packet *p, enum family family)
{
	return is_marked(p, MARKS_INGRESS, &p->wire.source, SNAT_PORTS, family);
}

/* A first packet. The port of SCTP cannot change. */
static __always_inline bool may_begin_own(const struct packet *p)
{
	return is_first(p) && p->wire.protocol != PROTOCOL_SCTP;
}

#endif
