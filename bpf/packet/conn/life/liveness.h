/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a connection goes on, and how long its record is kept: what states.h says of a state. */
#ifndef FAIRLEAD_CONN_LIVENESS_H
#define FAIRLEAD_CONN_LIVENESS_H

#include <stdbool.h>

#include "packet/conn/life/believe.h"
#include "packet/conn/life/states.h"
#include "packet/types.h"

/* To read, compare and swap it at once, and as an argument of a global function. */
union conn_word {
	struct conn_life life;
	__u64 word;
};

/* --- cells -------------------------------------------------------------------------------------
 */

static __always_inline bool is_one_sided(struct conn_life life)
{
	return life.flags.direct_return | life.flags.ipip;
}

static __always_inline enum conn_class class_of(struct conn_life life)
{
	if (life.protocol == PROTOCOL_SCTP)
		return CONN_SCTP;
	return (life.protocol == PROTOCOL_UDP ? CONN_UDP : CONN_TCP) + is_one_sided(life);
}

/* Hides from the compiler what it knows of the index: the verifier has to see it checked. */
static __always_inline __u16 cell_at(struct conn_life life, __u32 row, __u32 state)
{
	const __u16 *cells = &conn_tables[0][0][0];
	__u32 at = (class_of(life) * CONN_ROWS + row) * CONN_STATES + state;

	asm volatile("" : "+r"(at));
	return at < CONN_CLASSES * CONN_ROWS * CONN_STATES ? cells[at] : 0;
}

/* Both sides have confirmed it, at some time: no half-open connection takes its slot. */
static __always_inline bool is_confirmed(struct conn_life life)
{
	return !is_one_sided(life) &&
	       cell_at(life, ROW_LIVENESS, state_behind(life)) != CONN_HALF_OPEN;
}

/* --- time --------------------------------------------------------------------------------------
 */

/* Another CPU may have seen a packet a tick later than this one's clock says. */
static __always_inline __u32 ticks_passed(__u32 then, __u32 now)
{
	return (__s32)(now - then) > 0 ? now - then : 0;
}

/* `fairlead connections --drop-stale` has ended it by a time that no packet is from. */
#define LONG_AGO_TICKS (1u << 30)

static __always_inline bool is_dropped(const struct conn *c, __u32 now)
{
	return ticks_passed(c->seen, now) > LONG_AGO_TICKS;
}

static __always_inline __u32 ticks_of(const struct flow_timeouts *t, __u32 timeout)
{
	const __u32 *seconds = &t->tcp_new;

	asm volatile("" : "+r"(timeout));
	return TICKS_OF(timeout < TIMEOUT_RESERVED ? seconds[timeout] : RESERVED_SECONDS);
}

/* The backend may have the SNAT port of a connection that both sides have ended in TIME-WAIT. */
static __always_inline __u32 timeout_kept(struct conn_life life)
{
	if (life.state == CONN_TIME_WAIT && life.flags.masquerade)
		return TIMEOUT_RESERVED;
	return cell_at(life, ROW_KEPT, life.state);
}

static __always_inline enum conn_liveness liveness_of(struct conn_life life, __u32 silent_ticks,
						      const struct flow_timeouts *t)
{
	if (silent_ticks > ticks_of(t, timeout_kept(life)))
		return CONN_EXPIRED;
	return cell_at(life, ROW_LIVENESS, life.state);
}

_Static_assert(sizeof(struct flow_timeouts) == TIMEOUT_RESERVED * sizeof(__u32), "conn_timeout");
_Static_assert(CONN_ONE_SIDED_TCP == CONN_TCP + 1 && CONN_ONE_SIDED_UDP == CONN_UDP + 1,
	       "class_of");

#endif
