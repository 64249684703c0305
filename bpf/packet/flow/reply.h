/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Replies of masqueraded flows, at ingress: the destination becomes the client again. */
#ifndef FAIRLEAD_REPLY_H
#define FAIRLEAD_REPLY_H

#include "packet/flow/legs.h"
#include "packet/hook.h"
#include "packet/rewrite.h"

/* It begins a connection of the node itself from a port that an ended flow has had. */
static __always_inline bool is_of_node(const struct packet *p, const struct snat *snat)
{
	return (p->tcp_flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK) && is_ended(snat);
}

/*
 * A datagram for a flow that has expired is the node's own: no socket has the port, but netfilter
 * may have given it to a connection that it masquerades, as it does where fairlead has ceased to
 * serve and nobody sweeps. The nat leg knows of the latest request.
 */
static __always_inline bool is_expired(struct packet *p, const struct snat *snat,
				       const struct address *client, enum tier tier,
				       enum family family)
{
	const struct packet_settings *s = packet_settings();
	struct nat *nat;
	__u32 timeout;

	if (p->wire.protocol != PROTOCOL_UDP || !s)
		return false;
	timeout = timeout_of(s, PROTOCOL_UDP, tier == TIER_NEW ? FLOW_NEW : FLOW_ESTABLISHED);
	if (age_of(p->now, snat->seen_seconds) <= timeout)
		return false;
	p->quoted.source = *client;
	p->quoted.source_port = snat->client_port;
	p->quoted.destination = p->wire.source;
	p->quoted.destination_port = p->wire.source_port;
	p->quoted.protocol = p->wire.protocol;
	set_sorted(&p->quoted, &p->nat);
	nat = find_nat_of(p, family);
	return !nat || age_of(p->now, nat->seen_seconds) > timeout;
}

/* The end by the backend of a connection of the node: no egress program sees it. */
static __always_inline void note_end_of_own(struct packet *p, enum family family)
{
	tcp_progress progress = 0;
	struct flow *flow;
	struct snat *snat;
	struct nat *nat;

	set_sorted(&p->wire, &p->nat);
	nat = find_nat_of(p, family);
	if (!nat || !nat->flags.own)
		return;
	p->quoted = p->wire; /* not used otherwise for a packet that is no ICMP error */
	set_flow_key(p, nat, family);
	flow = find_flow_of(p, family);
	if (flow && read_flow(p, flow, family))
		progress = *progress_of(flow, family);
	p->wire = p->quoted;
	p->may_end = is_of_receiver(p, progress);
	if (p->tcp_flags & TCP_FIN)
		nat->flags.backend_fin |= p->may_end;
	if (p->tcp_flags & TCP_RST)
		nat->flags.reset |= p->may_end;
	snat = find_own_snat(p, nat, family);
	if (snat)
		note_end(p, &snat->backend_end);
}

__noinline int fl_end_of_own4(void)
{
	struct packet *p = this_packet();

	if (p)
		note_end_of_own(p, FAMILY_IPV4);
	return 0;
}

__noinline int fl_end_of_own6(void)
{
	struct packet *p = this_packet();

	if (p)
		note_end_of_own(p, FAMILY_IPV6);
	return 0;
}

static __always_inline int on_reply_in(hook_context *ctx, struct packet *p, enum tier tier,
				       enum family family)
{
	struct snat *found = find_snat(tier, &p->wire, family);
	bool is_own_end;
	struct address client;
	struct snat snat;
	int action;

	if (!found)
		return UNDECIDED;
	snat = *found;
	get_address(client_of(found), &client, family);
	if (snat.check != check_of(p, &p->wire, &client, snat.client_port, family))
		return UNDECIDED;
	if (is_of_node(p, &snat) || is_expired(p, &snat, &client, tier, family)) {
		delete_snat(tier, &p->wire, family);
		return UNDECIDED;
	}
	if (snat.client_end.reserved)
		return UNDECIDED;
	if (is_left(ctx, p, &client, snat.client_port, snat.seen_seconds,
		    tier == TIER_NEW || !snat.backend_end.answered, family))
		return LEFT;
	if (unlikely(!snat.backend_end.answered))
		found->backend_end.answered = 1;
	p->may_end = false; /* the egress program knows, and notes it: see on_end() */
	note_end(p, &found->backend_end);
	if (snat.seen_seconds != p->now)
		found->seen_seconds = p->now;
	is_own_end = p->tcp_flags & (TCP_FIN | TCP_RST) &&
		     is_same_address(&client, &p->wire.destination);
	action = set_destination(ctx, p, &client, snat.client_port, family);
	if (unlikely(is_own_end))
		family == FAMILY_IPV4 ? fl_end_of_own4() : fl_end_of_own6();
	return action;
}

static __always_inline int on_reply(hook_context *ctx, enum family family)
{
	struct packet *p = this_packet();
	int action;

	if (!p)
		return LEAVE;
	action = on_reply_in(ctx, p, TIER_MAIN, family);
	return action == UNDECIDED ? on_reply_in(ctx, p, TIER_NEW, family) : action;
}

__noinline int fl_reply4(hook_context *ctx)
{
	return on_reply(ctx, FAMILY_IPV4);
}

__noinline int fl_reply6(hook_context *ctx)
{
	return on_reply(ctx, FAMILY_IPV6);
}

static __always_inline int reply(hook_context *ctx, enum family family)
{
	return family == FAMILY_IPV4 ? fl_reply4(ctx) : fl_reply6(ctx);
}

#endif
