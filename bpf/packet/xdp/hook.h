/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * In the place of packet/hook.h, packet/rewrite.h, packet/uplink/way_back.h and
 * packet/geneve/clamp.h, so it is included before all that include them. Translation changes struct
 * packet alone; frame.h writes that into the frame.
 */
#ifndef FAIRLEAD_HOOK_H
#define FAIRLEAD_HOOK_H
#define FAIRLEAD_REWRITE_H
#define FAIRLEAD_GENEVE_CLAMP_H
#define FAIRLEAD_WAY_BACK_H

#include "packet/xdp/route.h"

typedef struct xdp_md hook_context;

/*
 * A global function whose parameter nothing uses is called without it by the compiler, and refused
 * by the verifier.
 */
static __always_inline void use(const hook_context *ctx)
{
	asm volatile("" : : "r"(ctx));
}

static __always_inline __u32 device_of(const hook_context *ctx, const struct packet *p)
{
	use(ctx);
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
	(void)family;
	use(ctx);
	p->wire.source = *a;
	p->wire.source_port = port;
	return LEAVE;
}

static __always_inline int set_destination(hook_context *ctx, struct packet *p,
					   const struct address *a, __u16 port, enum family family)
{
	(void)family;
	use(ctx);
	p->wire.destination = *a;
	p->wire.destination_port = port;
	return LEAVE;
}

/*
 * One packet of a flow in so many seconds goes through the stack, which asks neighbours whether
 * they are still there when it sends to them, and only then.
 */
#define RENEWAL_SECONDS 16

static __always_inline bool renews(const struct packet *p, __u32 seen)
{
	return seen != p->now && (p->now ^ p->wire.source_port) % RENEWAL_SECONDS == 0;
}

/* As in packet/hook.h. If not, p->route and p->device are its way on. */
static __always_inline bool is_left(hook_context *ctx, struct packet *p, const struct address *to,
				    __u16 port, __u32 seen, bool is_new, enum family family)
{
	if (is_new && !comes_by_its_way(ctx, p, family)) {
		count_reason(REASON_XDP_OTHER_WAY);
		return true;
	}
	if (unlikely(!is_new && renews(p, seen))) {
		count_reason(REASON_XDP_RENEWS);
		return true;
	}
	return !find_way(ctx, p, to, port, family);
}

/* As in packet/hook.h: the device of the network stack, also of a VLAN. */
static __always_inline __u32 arrival_of(const hook_context *ctx, const struct packet *p)
{
	use(ctx);
	return p->came_by;
}

/* As in packet/hook.h. The programs at tc send it by the other one. */
static __always_inline bool leaves_other_way(const struct packet *p, __u32 answers_by)
{
	return answers_by && answers_by != p->device;
}

/* As in packet/hook.h, where the programs at tc do it: such an answer is left to them. */
static __always_inline int return_by(hook_context *ctx, __u32 answers_by, enum family family)
{
	(void)answers_by, (void)family;
	use(ctx);
	return LEAVE;
}

/* As in packet/hook.h. What travels in Geneve is made there. */
static __always_inline bool is_of_tc(struct conn_flags flags)
{
	return flags.direct_return | flags.ipip | flags.of_stale;
}

/* As in packet/hook.h: such connections are served at tc. */
static __always_inline bool is_of_other_socket(const hook_context *ctx, const struct packet *p)
{
	(void)ctx, (void)p;
	return false;
}

/* As in packet/hook.h: a packet that is left is of a connection that tc must still find. */
static __always_inline bool forgets_later(void)
{
	return true;
}

/* Answers to requests that come in Geneve leave by tc: their backends are on this node. */
static __always_inline void clamp_mss(hook_context *ctx)
{
	(void)ctx;
}

#endif
