/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the functions of flow/ translate packets: at the hooks of tc. An object for XDP includes
 * xdp/hook.h first, which takes the place of this file.
 */
#ifndef FAIRLEAD_HOOK_H
#define FAIRLEAD_HOOK_H

#include "common/count.h"
#include "packet/answer/stale.h"
#include "packet/packet.h"

typedef struct __sk_buff hook_context;

/* The device that the packet comes in by, or at egress leaves by. */
static __always_inline __u32 device_of(const hook_context *ctx, const struct packet *p)
{
	(void)p;
	return ctx->ifindex;
}

/* The device that the packet came in by. */
static __always_inline __u32 arrival_of(const hook_context *ctx, const struct packet *p)
{
	(void)p;
	return ctx->ifindex;
}

/*
 * At XDP: the packet is for the programs at tc, as it came. Asked when its connection is known,
 * before anything is changed: where it goes, by whom it is, whether the connection is new.
 */
static __always_inline bool is_left(hook_context *ctx, struct packet *p, const struct address *to,
				    __u16 port, bool from_backend, bool is_new, enum family family)
{
	(void)ctx, (void)p, (void)to, (void)port, (void)from_backend, (void)is_new, (void)family;
	return false;
}

/* At XDP: the answer would leave by another device than its requests came in by. */
static __always_inline bool leaves_other_way(const struct packet *p, __u32 answers_by)
{
	(void)p, (void)answers_by;
	return false;
}

/* At XDP: a connection that only the programs at tc can serve. */
static __always_inline bool is_of_tc(struct conn_flags flags)
{
	(void)flags;
	return false;
}

/* Of a connection that is one socket's alone: the packet is not that socket's. */
static __always_inline bool is_of_other_socket(hook_context *ctx, const struct packet *p)
{
	return unlikely(p->conn.conn.life.flags.of_stale) &&
	       fl_stale_datagrams(ctx) != STALE_SERVED;
}

/* At XDP: not before it is decided that the packet is not left. */
static __always_inline bool forgets_later(void)
{
	return false;
}

static __always_inline int unanswered(enum reason reason)
{
	count_reason(reason);
	return TC_ACT_SHOT;
}

#endif
