/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Request packets of known flows, at ingress: the flow leg says which backend. Also keeps the other
 * legs complete, and moves flows that the backend has answered into the main tables.
 */
#ifndef FAIRLEAD_REQUEST_H
#define FAIRLEAD_REQUEST_H

#include "packet/flow/credit.h"
#include "packet/flow/legs.h"
#include "packet/hook.h"
#include "packet/rewrite.h"
#include "packet/uplink/arrival.h"

/* UDP packets that each side must have sent: a question and its answer stay half-open. */
#define UDP_ESTABLISHED 2

/* --- questions about p->flow -------------------------------------------------------------------
 */

static __always_inline bool is_answered(const struct packet *p, const struct flow *flow,
					const struct nat *nat)
{
	if (!nat->flags.replied)
		return false;
	if (p->wire.protocol == PROTOCOL_UDP)
		return flow->packets >= UDP_ESTABLISHED && nat->reply_packets >= UDP_ESTABLISHED;
	return true;
}

/* Neither side has sent anything for long. */
static __always_inline bool has_expired(const struct packet *p, const struct packet_settings *s,
					enum family family)
{
	__u32 timeout = timeout_of(s, p->wire.protocol, p->flow.state);
	struct nat *nat;

	if (age_of(p->now, p->flow.seen_seconds) <= timeout)
		return false;
	nat = find_nat_of(p, family);
	return !nat || age_of(p->now, nat->seen_seconds) > timeout;
}

/* BACKEND_FREE: it is gone, or its id is another backend's. */
static __always_inline enum backend_state backend_state_of(const struct packet *p,
							   enum family family)
{
	struct backend b;

	if (!read_backend(p->flow.backend_id, family, &b) || b.service_id != p->flow.service_id ||
	    b.generation != p->flow.generation)
		return BACKEND_FREE;
	return b.state;
}

/* A backend that no longer takes new connections keeps those that it has. */
static __always_inline bool backend_is_there(const struct packet *p, enum family family)
{
	enum backend_state state = backend_state_of(p, family);

	return state == BACKEND_ACTIVE || state == BACKEND_TERMINATING;
}

/*
 * A half-closed connection has not: anybody can send a SYN, and its backend only knows it from one
 * that begins another connection. Then its answer shows it, see begin_anew().
 */
static __always_inline bool has_ended(const struct packet *p, enum family family)
{
	struct nat *nat = find_nat_of(p, family);

	return (nat ? state_of(&p->flow, nat) : p->flow.state) == FLOW_CLOSED;
}

/* --- changes of legs ---------------------------------------------------------------------------
 */

__noinline int fl_forget4(void)
{
	struct packet *p = this_packet();

	if (p)
		forget(p, FAMILY_IPV4);
	return 0;
}

__noinline int fl_forget6(void)
{
	struct packet *p = this_packet();

	if (p)
		forget(p, FAMILY_IPV6);
	return 0;
}

/* Of a promotion that failed. A leg that began in the main table has no other copy, and stays. */
static __always_inline void undo_nat(struct packet *p, enum family family)
{
	if (find_nat(TIER_NEW, &p->nat, family))
		delete_nat(TIER_MAIN, &p->nat, family);
}

/*
 * Into the main tables, the flow leg last: whoever finds it there finds the others. If one does not
 * fit, all stay where they are.
 */
static __always_inline bool promote(struct packet *p, struct flow *flow, struct nat *nat,
				    enum family family)
{
	struct snat *snat = NULL;

	if (set_snat_key(p, nat, family))
		snat = find_snat(TIER_NEW, &p->snat, family);
	if (snat && put_snat(TIER_MAIN, &p->snat, snat, BPF_ANY, family))
		return false;
	if (put_nat(TIER_MAIN, &p->nat, nat, BPF_ANY, family)) {
		if (snat)
			delete_snat(TIER_MAIN, &p->snat, family);
		return false;
	}
	if (put_flow(TIER_MAIN, &p->wire, flow, BPF_ANY, family)) {
		if (snat)
			delete_snat(TIER_MAIN, &p->snat, family);
		undo_nat(p, family);
		return false;
	}
	delete_flow(TIER_NEW, &p->wire, family);
	delete_nat(TIER_NEW, &p->nat, family);
	if (snat)
		delete_snat(TIER_NEW, &p->snat, family);
	return true;
}

static __always_inline void note_client_end(const struct packet *p, struct flow *flow)
{
	if (p->tcp_flags & TCP_FIN)
		flow->flags.client_fin = 1;
	if (p->tcp_flags & TCP_RST)
		flow->flags.reset = 1;
}

/* A packet that account() has not believed. */
static __always_inline void catch_up(const struct packet *p, struct flow *flow,
				     const struct nat *nat, enum family family)
{
	tcp_progress *progress = progress_of(flow, family);

	if (!catches_up(p, *progress, nat->progress))
		return;
	*progress = p->progress;
	note_client_end(p, flow);
}

/*
 * Makes a lost nat leg again, merges what the backend has sent into the state, promotes. False: the
 * nat leg is another flow's by now.
 */
static __always_inline bool tend(struct packet *p, struct flow *flow, enum tier tier,
				 enum family family)
{
	__u32 check = nat_check(p, family);
	struct nat *nat = find_nat_of(p, family);
	bool may_promote; /* into a full table: once a second */

	if (!nat) {
		make_nat(p, family);
		return put_nat(tier, &p->nat, &p->leg, BPF_NOEXIST, family) == 0;
	}
	if (nat->check != check)
		return false;
	if (p->syn)
		nat->syn = p->syn;
	if (unlikely(nat->answers_by != p->answers_by))
		nat->answers_by = p->answers_by;
	if (unlikely(p->wire.protocol == PROTOCOL_SCTP))
		follow_client(p, flow, nat, state_of(flow, nat), family);
	catch_up(p, flow, nat, family);
	may_promote = p->flow.state == FLOW_NEW || p->flow.seen_seconds != p->now;
	if (tier == TIER_NEW && may_promote && is_answered(p, flow, nat)) {
		flow->state = FLOW_ESTABLISHED;
		flow->state = state_of(flow, nat);
		if (!promote(p, flow, nat, family))
			count_reason(REASON_FLOW_TABLE_FULL);
		return true;
	}
	if (tier == TIER_MAIN && p->flow.state == FLOW_NEW && is_answered(p, flow, nat)) {
		flow->state = FLOW_ESTABLISHED;
		give_credit(p);
	}
	flow->state = state_of(flow, nat);
	return true;
}

/* Of a first packet. A datagram begins none. */
static __always_inline bool begins_connection(const struct packet *p)
{
	return p->tcp_flags & TCP_SYN &&
	       (p->wire.protocol == PROTOCOL_TCP || p->chunk == SCTP_INIT);
}

/* False: this packet begins a new flow. */
static __always_inline bool goes_on(struct packet *p, enum family family)
{
	const struct packet_settings *s = packet_settings();

	if (!s)
		return true;
	if (!is_first(p))
		return !s->flags.reset_gone || backend_is_there(p, family);
	if (has_expired(p, s, family) || !backend_is_there(p, family))
		return false;
	return !begins_connection(p) || !has_ended(p, family);
}

/* Not atomic: packets of one flow meet on two CPUs seldom, and then only a count is lost. */
static __always_inline void account(struct packet *p, struct flow *flow, enum family family)
{
	tcp_progress *progress = progress_of(flow, family);

	flow->packets += 1;
	flow->bytes += p->length;
	if (flow->seen_seconds != p->now)
		flow->seen_seconds = p->now;
	if (unlikely(p->tcp_flags & (TCP_FIN | TCP_RST)) && is_of_sender(p, *progress))
		note_client_end(p, flow);
	if (unlikely(flow->flags.reset) && goes_on_after_reset(p))
		flow->flags.reset = 0;
	note_progress(p, progress);
}

/* The client's port differs for the backend only if two of its flows would look the same to it. */
static __always_inline int to_backend(hook_context *ctx, struct packet *p, enum family family)
{
	int action = LEAVE;

	if (unlikely(p->flow.client_port != p->wire.source_port))
		action = set_source(ctx, p, &p->wire.source, p->flow.client_port, family);
	if (action != LEAVE)
		return action;
	action = set_destination(ctx, p, &p->backend, p->flow.backend_port, family);
	/* Of TCP the egress program leaves it by its mark alone. */
	if (p->wire.protocol != PROTOCOL_TCP && !p->flow.flags.masquerade)
		leave_at_egress(p, family);
	return action;
}

static __always_inline int on_request_in(hook_context *ctx, struct packet *p, enum tier tier,
					 enum family family)
{
	struct flow *flow = find_flow(tier, &p->wire, family);
	bool is_tended;

	if (!flow || !read_flow(p, flow, family))
		return UNDECIDED;
	if (is_of_tc(&p->flow) || is_left(ctx, p, &p->backend, p->flow.backend_port,
					  p->flow.seen_seconds, p->flow.state == FLOW_NEW, family))
		return LEFT;
	if (unlikely(p->flow.flags.direct_return))
		return GOES_DIRECTLY;
	/* Half-open legs may be evicted at any time; others are looked after once a second. */
	is_tended = tier == TIER_MAIN && p->flow.seen_seconds == p->now &&
		    p->flow.state != FLOW_NEW && p->flow.state != FLOW_CLOSED &&
		    !(p->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST));
	if (unlikely(!is_tended)) {
		set_nat_key(p);
		p->answers_by = find_answers_by(ctx, p);
	}
	if (unlikely(is_of_other_socket(ctx, p) || !goes_on(p, family) ||
		     (account(p, flow, family), !is_tended && !tend(p, flow, tier, family)))) {
		if (is_tended)
			set_nat_key(p);
		note_former(p, p->flow.backend_id);
		if (forgets_later())
			return OVER;
		if (family == FAMILY_IPV4)
			fl_forget4();
		else
			fl_forget6();
		return UNDECIDED;
	}
	return to_backend(ctx, p, family);
}

static __always_inline int on_request(hook_context *ctx, enum tier tier, enum family family)
{
	struct packet *p = this_packet();

	return p ? on_request_in(ctx, p, tier, family) : LEAVE;
}

__noinline int fl_request_main4(hook_context *ctx)
{
	return on_request(ctx, TIER_MAIN, FAMILY_IPV4);
}

__noinline int fl_request_main6(hook_context *ctx)
{
	return on_request(ctx, TIER_MAIN, FAMILY_IPV6);
}

__noinline int fl_request_new4(hook_context *ctx)
{
	return on_request(ctx, TIER_NEW, FAMILY_IPV4);
}

__noinline int fl_request_new6(hook_context *ctx)
{
	return on_request(ctx, TIER_NEW, FAMILY_IPV6);
}

static __always_inline int request(hook_context *ctx, enum family family)
{
	int action = family == FAMILY_IPV4 ? fl_request_main4(ctx) : fl_request_main6(ctx);

	if (action != UNDECIDED)
		return action;
	return family == FAMILY_IPV4 ? fl_request_new4(ctx) : fl_request_new6(ctx);
}

#endif
