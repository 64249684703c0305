/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * First packets of connections of direct return, and all of those without a record, at the node
 * that has chosen the backend. What cannot begin so begins with SNAT: its backend is here, on a
 * node that takes no Geneve, or on the node of the client; or it is too big and may be fragmented,
 * or is datagrams to be segmented.
 */
#ifndef FAIRLEAD_GENEVE_BEGIN_H
#define FAIRLEAD_GENEVE_BEGIN_H

#include "packet/flow/begin.h"
#include "packet/geneve/send.h"

/* What is not masqueraded needs no other way. */
static __always_inline bool goes_directly(const struct packet *p)
{
	return p->choice.rule.flags.direct_return & p->choice.masquerade & !p->keeps_backend;
}

/* A connection of TCP is made, as fl_count_conn() counts it; none of them is known to live. */
static __always_inline void count_stateless(const struct packet *p)
{
	__u32 id = p->choice.frontend_id;
	struct traffic *traffic = bpf_map_lookup_elem(&fl_traffic, &id);

	if (traffic) {
		__sync_fetch_and_add(&traffic->packets, 1);
		__sync_fetch_and_add(&traffic->bytes, p->length);
	}
	if (p->wire.protocol != PROTOCOL_TCP || !p->syn)
		return;
	count_begun(p);
	count_opened(p->choice.backend_id);
	count_closed(p->choice.backend_id);
}

/* That node would take a packet from an address of its own for a martian. */
static __always_inline bool is_to_client(const struct packet *p)
{
	return is_same_address(&p->wire.source, &p->way.node);
}

/* The backend knows the connection, and would not know it with SNAT. */
static __always_inline bool is_known_without(const struct packet *p)
{
	return p->known_by != KNOWN_BY_RECORD && !is_first(p);
}

static __always_inline int begin_direct(struct __sk_buff *skb, struct packet *p, enum family family)
{
	int action, begun;

	if (!can_be_wrapped(skb, p) || is_hairpin(p))
		return UNDECIDED;
	set_now(p);
	make_conn(family);
	p->conn.conn.middle_port = p->wire.source_port;
	p->conn.conn.life.flags.masquerade = 0;
	p->conn.conn.life.flags.direct_return = 1;
	p->conn.conn.life.flags.ipip = p->choice.rule.flags.ipip;
	if (!fl_find_node() || is_to_client(p))
		return UNDECIDED;
	if (!fl_find_way(skb))
		return is_known_without(p) ? unanswered(REASON_DIRECT_NO_ROUTE) : UNDECIDED;
	if (p->known_by == KNOWN_BY_TABLE) {
		action = send(skb, p, family);
		if (action == TC_ACT_REDIRECT)
			count_stateless(p);
		return action;
	}
	mark_frontend(p, family);
	begun = put_conn(&p->wire, family);
	if (begun == BEGIN_NO_ROOM)
		return unanswered(REASON_DROPPED_NO_FLOW);
	action = send(skb, p, family);
	if (action == UNDECIDED) {
		end_conn(family);
		return UNDECIDED;
	}
	if (begun == BEGIN_MADE) {
		count_begun(p);
		count_packet(p->slot.index, p->length, false, family);
	}
	return action;
}

__noinline int fl_begin_direct4(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? begin_direct(skb, p, FAMILY_IPV4) : LEAVE;
}

__noinline int fl_begin_direct6(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? begin_direct(skb, p, FAMILY_IPV6) : LEAVE;
}

#endif
