/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connections to a set of Maglev that another node has begun, or this one before it lost their
 * records: the set's table names the backend that they have, as it named it to their SYN.
 */
#ifndef FAIRLEAD_ADOPT_H
#define FAIRLEAD_ADOPT_H

#include "packet/flow/select.h"

/*
 * p->choice is the refusal of a packet that begins no connection. A SYN with ACK is no client's. A
 * connection that has just ended here had another backend, which is gone.
 */
static __always_inline bool may_adopt(const struct packet *p)
{
	return p->choice.rule.kind == SET_MAGLEV && !(p->tcp_flags & TCP_SYN) && !p->former_backend;
}

/*
 * Half-open like a connection that begins, until the backend answers: a flood of packets makes no
 * confirmed ones. If the backend does not know the connection, it sends the RST.
 */
static __always_inline bool adopt(enum family family)
{
	struct packet *p = this_packet();
	int verdict;

	if (!p || !may_adopt(p))
		return false;
	p->request.may_choose_anew = true;
	verdict = select(p, family);
	if (verdict != VERDICT_TRANSLATE)
		return false;
	family == FAMILY_IPV4 ? fl_note_choice4() : fl_note_choice6();
	p->choice.reason = REASON_ADOPTED;
	return true;
}

/* True: p->choice is the backend that it had, and its connection begins with that. */
__noinline int fl_adopt4(void)
{
	return adopt(FAMILY_IPV4);
}

__noinline int fl_adopt6(void)
{
	return adopt(FAMILY_IPV6);
}

#endif
