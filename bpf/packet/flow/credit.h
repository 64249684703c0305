/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many half-open connections may be in the main tables: so few that a flood of them takes next
 * to none of the room. A connection that begins there need not move when it is answered, which is
 * most of what its first packets cost. All others begin in the tables of half-open flows.
 */
#ifndef FAIRLEAD_CREDIT_H
#define FAIRLEAD_CREDIT_H

#include "packet/packet.h"

/* Of one CPU. Written before load. 0: all begin in the tables of half-open flows. */
const volatile __u32 main_credit = 256;

/*
 * What is never answered gives nothing back: it is swept after some 20 seconds, and after 32 all
 * credit is there again, also that of connections whose packets have changed CPUs.
 */
#define CREDIT_SECONDS 32

static __always_inline bool take_credit(struct packet *p)
{
	__u32 seconds = p->now - p->credit_at;

	if (!main_credit || p->wire.protocol != PROTOCOL_TCP)
		return false;
	if (seconds) {
		p->credit += seconds < CREDIT_SECONDS ? seconds * main_credit / CREDIT_SECONDS
						      : main_credit;
		if (p->credit > main_credit)
			p->credit = main_credit;
		p->credit_at = p->now;
	}
	if (!p->credit)
		return false;
	p->credit -= 1;
	return true;
}

static __always_inline void give_credit(struct packet *p)
{
	if (p->credit < main_credit)
		p->credit += 1;
}

#endif
