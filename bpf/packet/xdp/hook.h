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

#include "packet/flow/follow.h"
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
 * One packet of each side in so many seconds goes through the stack, which asks neighbours whether
 * they are still there when it sends to them, and only then. The clients' ports spread that over
 * the seconds, and each side has its own. A tick may be of two seconds: its end counts.
 */
#define RENEWAL_SECONDS 16

static __always_inline bool renews(const struct packet *p, bool from_backend)
{
	const struct conn *c = &p->conn.conn;
	__u32 turn = p->now ^ c->client_port ^ (from_backend ? RENEWAL_SECONDS / 2 : 0);

	return turn % RENEWAL_SECONDS == 0 && seconds_of(c->seen + 1) != p->now;
}

/*
 * The next ones of this second are sent. A record that was seen for longer than a second before is
 * renewed by tc, which finds out whether the connection is over.
 */
static __always_inline void note_renewal(const struct packet *p, enum family family)
{
	struct conn *record = conn_at(p->slot.index, family);

	if (record && may_be_usual(p))
		record->seen = p->env.now;
}

/* As in packet/hook.h. If not, p->route and p->device are its way on. */
static __always_inline bool is_left(hook_context *ctx, struct packet *p, const struct address *to,
				    __u16 port, bool from_backend, bool is_new, enum family family)
{
	if (is_new && !comes_by_its_way(ctx, p, family)) {
		count_reason(REASON_XDP_OTHER_WAY);
		return true;
	}
	if (unlikely(!is_new && renews(p, from_backend))) {
		note_renewal(p, family);
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
