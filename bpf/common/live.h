/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How many flows each backend has now: what least connections compares, besides open sockets. */
#ifndef FAIRLEAD_COMMON_LIVE_H
#define FAIRLEAD_COMMON_LIVE_H

#include <linux/types.h>

/*
 * Flows of packets that a backend has now: older + newer. Who makes a record adds one, and who ends
 * or evicts it takes one away. In case one is lost, each round of the sweep corrects the count of
 * the flows that were there when it began: it has met `met` of them, of which at most `ended` have
 * ended since. src/engines/bpf/flows/sweep/recount.ts has the rest. Element 0 is no backend's:
 * its `met` is the second since boot in which the round began.
 */
struct backend_flows {
	__s32 older; /* they began before that second */
	__s32 newer;
	__u32 ended; /* of the older ones, since the round began */
	__u32 met;   /* older ones that the sweep has met in this round */
};

_Static_assert(sizeof(struct backend_flows) == 16, "backend_flows");

#endif
