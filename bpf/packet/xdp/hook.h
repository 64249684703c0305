/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * In the place of packet/hook.h and packet/rewrite.h, so it is included before all that include
 * them. Translation changes the record of the packet alone; send.h writes it into the frame.
 */
#ifndef FAIRLEAD_HOOK_H
#define FAIRLEAD_HOOK_H
#define FAIRLEAD_REWRITE_H

#include "common/count.h"
#include "packet/packet.h"

typedef struct xdp_md hook_context;

static __always_inline __u32 device_of(const hook_context *ctx, const struct packet *p)
{
	(void)ctx;
	return p->device;
}

static __always_inline int unanswered(enum reason reason)
{
	count_reason(reason);
	return TC_ACT_SHOT;
}

static __always_inline int set_source(hook_context *ctx, struct packet *p, const struct address *a,
				      __u16 port, enum family family)
{
	(void)ctx;
	(void)family;
	p->wire.source = *a;
	p->wire.source_port = port;
	return LEAVE;
}

static __always_inline int set_destination(hook_context *ctx, struct packet *p,
					   const struct address *a, __u16 port, enum family family)
{
	(void)ctx;
	(void)family;
	p->wire.destination = *a;
	p->wire.destination_port = port;
	return LEAVE;
}

#endif
