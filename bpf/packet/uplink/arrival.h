/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The device that answers to a request leave by, see way_back.h. Only of uplinks: where pods and
 * tunnels are, the way of an answer may be another one than that of its request.
 */
#ifndef FAIRLEAD_ARRIVAL_H
#define FAIRLEAD_ARRIVAL_H

#include "packet/hook.h"

/* `device` is the entry of the device by which the request came in, or of another one. */
static __always_inline __u32 answers_by(const hook_context *ctx, const struct packet *p,
					const struct device *device)
{
	__u32 arrival = arrival_of(ctx, p);

	if (!device || device->ifindex != arrival || !device->flags.is_uplink || p->in_geneve)
		return 0;
	return arrival;
}

/* The same, with the look-up of the device: once a second for each connection. */
static __always_inline __u32 find_answers_by(const hook_context *ctx, const struct packet *p)
{
	__u32 arrival = arrival_of(ctx, p);

	return answers_by(ctx, p, bpf_map_lookup_elem(&fl_device, &arrival));
}

#endif
