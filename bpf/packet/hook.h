/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the functions of flow/ translate packets: at the hooks of tc. An object for XDP includes
 * xdp/hook.h first, which takes the place of this file.
 */
#ifndef FAIRLEAD_HOOK_H
#define FAIRLEAD_HOOK_H

#include "common/count.h"
#include "packet/packet.h"

typedef struct __sk_buff hook_context;

/* The device that the packet comes in by, or at egress leaves by. */
static __always_inline __u32 device_of(const hook_context *ctx, const struct packet *p)
{
	(void)p;
	return ctx->ifindex;
}

static __always_inline int unanswered(enum reason reason)
{
	count_reason(reason);
	return TC_ACT_SHOT;
}

#endif
