/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets of no connection, to a frontend: whether a backend is chosen, and which. */
#ifndef FAIRLEAD_CHOOSE_H
#define FAIRLEAD_CHOOSE_H

#include "packet/answer/refuse.h"
#include "packet/answer/reset.h"
#include "packet/flow/adopt.h"
#include "packet/flow/stateless.h"

/*
 * TCP that is neither a first packet nor of a known connection. What may be the kernel's is left.
 * Else it may be of a connection whose backend a table of Maglev knows, and begins as others do:
 * UNDECIDED. `may_adopt` is a compile-time constant.
 */
static __always_inline int on_unknown(struct __sk_buff *skb, struct packet *p, bool may_adopt,
				      enum family family)
{
	bool is_left;

	set_now(p);
	is_left = is_of_kernel(p, family);
	if (may_adopt && !is_left && (family == FAMILY_IPV4 ? fl_adopt4() : fl_adopt6()))
		return UNDECIDED;
	p->choice.reason = REASON_UNKNOWN_CONNECTION;
	count_choice(&p->choice);
	if (is_left)
		return LEAVE;
	return family == FAMILY_IPV4 ? fl_reset4(skb) : fl_reset6(skb);
}

/*
 * While records are carried into another table, a connection that begins would be known to half of
 * the programs. Who finds a hold that has ended removes it: its low bits would come again.
 */
static __always_inline bool is_held(struct packet *p)
{
	struct packet_settings *s = packet_settings();

	/* Nobody sends a datagram again. */
	if (!s || !s->hold_until || p->wire.protocol == PROTOCOL_UDP)
		return false;
	set_now(p);
	if ((__u16)(s->hold_until - (__u16)p->now) <= HOLD_SECONDS)
		return true;
	s->hold_until = 0;
	return false;
}

/*
 * p->choice has a backend. It is chosen for every packet of a connection without a record. What is
 * not masqueraded gets a record, as its answers come by.
 */
static __always_inline bool begins_conn(struct packet *p)
{
	if (p->known_by == KNOWN_BY_TABLE && !p->choice.masquerade)
		p->known_by = KNOWN_BY_RECORD;
	if (!is_first(p))
		p->choice.reason = REASON_ADOPTED;
	if (p->known_by == KNOWN_BY_TABLE)
		return p->wire.protocol == PROTOCOL_TCP && p->syn;
	return true;
}

/*
 * UNDECIDED: p->choice has the backend of the connection that begins, or of one without a record.
 * `may_adopt` is a compile-time constant: adopting needs two frames of the eight that calls may
 * have.
 */
static __always_inline int choose_backend(struct __sk_buff *skb, struct packet *p, bool may_adopt,
					  enum family family)
{
	int verdict;

	if (leaves_new())
		return LEAVE;
	set_client(skb, p, family);
	p->known_by = KNOWN_BY_RECORD;
	if (with_direct_return && may_adopt)
		family == FAMILY_IPV4 ? fl_known_by4() : fl_known_by6();
	if (p->known_by != KNOWN_BY_TABLE && is_held(p))
		return unanswered(REASON_DROPPED_BUSY);
	verdict = select(p, family);
	if (verdict == VERDICT_LEAVE)
		return LEAVE;
	if (verdict == VERDICT_REFUSE && p->choice.reason == REASON_FLOW_ENDED)
		return on_unknown(skb, p, may_adopt, family);
	/* A connection is counted when it begins: a packet that is dropped after all comes again.
	 */
	if (verdict != VERDICT_TRANSLATE)
		count_choice(&p->choice);
	else if (with_direct_return && may_adopt && !begins_conn(p))
		return UNDECIDED;
	if (verdict == VERDICT_DROP)
		return TC_ACT_SHOT;
	if (verdict == VERDICT_REFUSE)
		return refuse(skb, family);
	family == FAMILY_IPV4 ? fl_note_choice4() : fl_note_choice6();
	return UNDECIDED;
}

#endif
