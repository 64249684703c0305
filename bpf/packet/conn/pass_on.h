/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A table that is about to be replaced begins no connection any more: a packet that it does not
 * know is for the programs that use the next table, which are called from here. So no first packet
 * is lost while links are replaced one after the other, whichever of the two programs a later
 * packet meets.
 */
#ifndef FAIRLEAD_PASS_ON_H
#define FAIRLEAD_PASS_ON_H

#include "packet/packet.h"

/* Keys of fl_next, in the order of DEVICE_PROGRAMS in src/engines/bpf/layer.ts. */
enum next_program { NEXT_INGRESS, NEXT_EGRESS, NEXT_INGRESS_L3, NEXT_EGRESS_L3 };

static __always_inline bool passes_on(void)
{
	const struct table_phase *phase = with_tail_calls ? table_phase() : NULL;

	return phase && unlikely(phase->passes_on);
}

/* Without a next program, the packet is as one of no Service. */
static __always_inline int end_with(struct __sk_buff *skb, int action, enum next_program next)
{
	if (!with_tail_calls || likely(action != PASS_ON))
		return action;
	bpf_tail_call(skb, &fl_next, next);
	return LEAVE;
}

#endif
