/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets between clients and backends, at egress: replies come from the frontend, masqueraded
 * requests from the SNAT address. A packet that has another address by now, because something else
 * has masqueraded it, finds no leg and is left alone.
 */
#ifndef FAIRLEAD_EGRESS_H
#define FAIRLEAD_EGRESS_H

#include "packet/snat/follow.h"
#include "packet/snat/search.h"
#include "packet/geneve/clamp.h"
#include "packet/uplink/way_back.h"

/* --- replies -----------------------------------------------------------------------------------
 */

static __always_inline void account_reply(const struct packet *p, struct nat *nat)
{
	nat->reply_packets += 1;
	nat->reply_bytes += p->length;
	if (nat->seen_seconds != p->now)
		nat->seen_seconds = p->now;
	/* SCTP: see begin_anew(). */
	if (!nat->flags.replied && p->wire.protocol != PROTOCOL_SCTP)
		nat->flags.replied = 1;
	if ((p->tcp_flags & (TCP_SYN | TCP_RST | TCP_ACK)) == TCP_ACK)
		nat->progress = p->progress;
	if (p->tcp_flags & TCP_FIN)
		nat->flags.backend_fin |= p->may_end;
	if (p->tcp_flags & TCP_RST)
		nat->flags.reset |= p->may_end;
	else if (nat->flags.reset && goes_on_after_reset(p))
		nat->flags.reset = 0;
}

static __always_inline int to_client(hook_context *ctx, struct packet *p, const struct nat *nat,
				     enum family family)
{
	int action = set_source(ctx, p, &p->frontend, nat->frontend_port, family);

	if (action != LEAVE || nat->client_port == p->wire.destination_port)
		return action;
	return set_destination(ctx, p, &p->wire.destination, nat->client_port, family);
}

/* --- ends -------------------------------------------------------------------------------------
 */

/* The snat leg has not noted the end by the backend yet: only the flow leg tells a forged one. */
static __always_inline void note_backend_end(struct packet *p, struct nat *nat, enum family family)
{
	struct snat *snat = find_own_snat(p, nat, family);

	if (snat)
		note_end(p, &snat->backend_end);
}

/*
 * The backend answers a SYN although the flow has a connection, which has not ended here: by now it
 * has none, and the flow is that of the new one. Or it has opened an association of SCTP. Of no
 * other packet with a SYN of TCP on_end() is asked.
 */
static __always_inline bool begins_anew(const struct packet *p)
{
	return (p->tcp_flags & (TCP_SYN | TCP_ACK | TCP_FIN | TCP_RST)) == (TCP_SYN | TCP_ACK);
}

static __always_inline void begin_nat_anew(const struct packet *p, struct nat *nat)
{
	nat->flags.replied = 1;
	nat->flags.backend_fin = 0;
	nat->flags.reset = 0;
	nat->progress = p->progress;
}

/* What ends or begins a connection, of either side, of the nat leg of p->nat. */
static __always_inline void on_end(struct packet *p, struct nat *nat, enum family family)
{
	bool is_request = ascends(&p->wire) == nat->flags.client_is_source;
	bool is_anew = begins_anew(p);
	tcp_progress progress = 0;
	struct flow *flow;

	p->quoted = p->wire; /* not used otherwise for a packet that is no ICMP error */
	set_flow_key(p, nat, family);
	flow = find_flow_of(p, family);
	if (flow && read_flow(p, flow, family)) {
		progress = *progress_of(flow, family);
		if (is_anew)
			begin_anew(flow, family);
		else if (p->wire.protocol == PROTOCOL_SCTP)
			follow_backend(p, nat, progress, state_of(flow, nat));
	}
	p->wire = p->quoted;
	if (is_anew) {
		begin_nat_anew(p, nat);
		return;
	}
	p->may_end = is_request ? is_of_sender(p, progress) : is_of_receiver(p, progress);
	if (!is_request)
		note_backend_end(p, nat, family);
}

__noinline int fl_end_seen4(void)
{
	struct packet *p = this_packet();
	struct nat *nat = p ? find_nat_of(p, FAMILY_IPV4) : NULL;

	if (nat)
		on_end(p, nat, FAMILY_IPV4);
	return 0;
}

__noinline int fl_end_seen6(void)
{
	struct packet *p = this_packet();
	struct nat *nat = p ? find_nat_of(p, FAMILY_IPV6) : NULL;

	if (nat)
		on_end(p, nat, FAMILY_IPV6);
	return 0;
}

/* --- the SYN of a backend ----------------------------------------------------------------------
 */

static __always_inline void on_syn_of_backend(hook_context *ctx, const struct packet *p,
					      const struct nat *nat, enum family family)
{
	if (nat->flags.in_geneve)
		clamp_mss(ctx);
	if (nat->flags.replied || p->wire.protocol == PROTOCOL_SCTP)
		family == FAMILY_IPV4 ? fl_end_seen4() : fl_end_seen6();
}

/* --- the first packet of a backend --------------------------------------------------------------
 */

/*
 * It came to the SNAT port of the flow of p->nat: so it answers that one, and is of no older
 * connection. A backend that has a former connection from that port in TIME-WAIT answers a SYN with
 * an ACK, which the client must see: it ends that connection by a RST, and sends the SYN again at
 * once.
 */
static __always_inline bool is_answer_to_snat(struct packet *p, struct nat *nat, enum family family)
{
	struct snat *snat = find_own_snat(p, nat, family);

	return snat && snat->backend_end.answered;
}

static __always_inline bool leave_first(struct packet *p, enum family family)
{
	struct nat *nat = find_nat_of(p, family);

	if (!nat || is_answer_to_snat(p, nat, family))
		return false;
	leave_to_older(p, nat, family);
	return true;
}

__noinline int fl_leave_first4(void)
{
	struct packet *p = this_packet();

	return p ? leave_first(p, FAMILY_IPV4) : false;
}

__noinline int fl_leave_first6(void)
{
	struct packet *p = this_packet();

	return p ? leave_first(p, FAMILY_IPV6) : false;
}

/* --- masqueraded requests ----------------------------------------------------------------------
 */

/*
 * The port is written last: who reads it finds the address. A packet of the flow on another CPU
 * meanwhile finds the snat leg, which is its own flow's, and so the same port.
 */
static __always_inline bool choose_snat(hook_context *ctx, struct packet *p, struct nat *nat,
					enum tier tier, enum family family)
{
	if (!set_snat_address(ctx, p, family)) {
		count_reason(REASON_DROPPED_NO_ADDRESS);
		return false;
	}
	if (unlikely(nat->flags.own))
		p->snat.destination = p->wire.source;
	p->follows_answer = false;
	if (!take_any_port(ctx, p, tier, family)) {
		count_reason(REASON_DROPPED_NO_PORT);
		return false;
	}
	set_mark(p, MARKS_INGRESS, &p->snat.destination, SNAT_PORTS, family);
	put_address(snat_address_of(nat, family), &p->snat.destination, family);
	barrier();
	*(volatile __u16 *)&nat->snat_port = p->snat.destination_port;
	return true;
}

/* Once a second is enough for an established flow, except for what begins and ends connections. */
static __always_inline bool is_kept(const struct packet *p, const struct nat *nat, enum tier tier)
{
	return tier == TIER_MAIN && nat->seen_seconds == p->now &&
	       !(p->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST)) &&
	       !(nat->flags.backend_fin | nat->flags.reset);
}

/* A lost snat leg is made again. False: another flow has its port by now. */
static __always_inline bool keep_snat(hook_context *ctx, struct packet *p, struct nat *nat,
				      enum tier tier, enum family family)
{
	if (is_kept(p, nat, tier))
		return true;
	if (p->tcp_flags & TCP_RST)
		nat->flags.reset |= p->may_end;
	nat->seen_seconds = p->now;
	p->follows_answer = nat->flags.replied;
	return take_port(ctx, p->snat.destination_port, tier, family);
}

static __always_inline int masquerade(hook_context *ctx, struct packet *p, struct nat *nat,
				      enum tier tier, enum family family)
{
	if (!(set_snat_key(p, nat, family) && keep_snat(ctx, p, nat, tier, family)) &&
	    !choose_snat(ctx, p, nat, tier, family))
		return TC_ACT_SHOT;
	return set_source(ctx, p, &p->snat.destination, p->snat.destination_port, family);
}

/* --- datagrams straight to a backend -----------------------------------------------------------
 */

/* A request of a flow that lives has renewed it at ingress: what finds an expired one is none. */
static __always_inline bool may_be_direct(const struct packet *p, const struct nat *nat)
{
	const struct packet_settings *s = packet_settings();

	return p->wire.protocol != PROTOCOL_TCP && s &&
	       age_of(p->now, nat->seen_seconds) > s->timeout_seconds.udp_new;
}

__noinline int fl_forget_ended4(void)
{
	struct packet *p = this_packet();
	struct nat *nat = p ? find_nat_of(p, FAMILY_IPV4) : NULL;

	return nat && forget_ended(p, nat, FAMILY_IPV4);
}

__noinline int fl_forget_ended6(void)
{
	struct packet *p = this_packet();
	struct nat *nat = p ? find_nat_of(p, FAMILY_IPV6) : NULL;

	return nat && forget_ended(p, nat, FAMILY_IPV6);
}

static __always_inline int on_request_out(hook_context *ctx, struct packet *p, struct nat *nat,
					  enum tier tier, enum family family)
{
	if (may_be_direct(p, nat) &&
	    (family == FAMILY_IPV4 ? fl_forget_ended4() : fl_forget_ended6()))
		return UNDECIDED;
	if (unlikely(nat->flags.own))
		family == FAMILY_IPV4 ? fl_follow_own4() : fl_follow_own6();
	return nat->flags.masquerade ? masquerade(ctx, p, nat, tier, family) : LEAVE;
}

/* --- both --------------------------------------------------------------------------------------
 */

static __always_inline int on_egress_in(hook_context *ctx, struct packet *p, enum tier tier,
					enum family family)
{
	struct nat *found = find_nat(tier, &p->nat, family);
	struct nat nat;
	int action;

	if (!found)
		return UNDECIDED;
	nat = *found;
	get_address(frontend_of(found), &p->frontend, family);
	if (nat.check != check_of(p, &p->nat, &p->frontend,
				  two_ports(nat.frontend_port, nat.client_port), family))
		return UNDECIDED;
	if (unlikely(p->tcp_flags & (TCP_FIN | TCP_RST)))
		family == FAMILY_IPV4 ? fl_end_seen4() : fl_end_seen6();
	if (ascends(&p->wire) == nat.flags.client_is_source)
		return on_request_out(ctx, p, found, tier, family);
	if (unlikely(is_of_older(p, &nat)) &&
	    (family == FAMILY_IPV4 ? fl_leave_first4() : fl_leave_first6()))
		return LEAVE;
	if (unlikely(leaves_other_way(p, nat.answers_by)))
		return LEFT;
	if (unlikely(p->tcp_flags & TCP_SYN))
		on_syn_of_backend(ctx, p, &nat, family);
	account_reply(p, found);
	action = to_client(ctx, p, &nat, family);
	return action == LEAVE ? return_by(ctx, nat.answers_by, family) : action;
}

static __always_inline int on_egress(hook_context *ctx, enum tier tier, enum family family)
{
	struct packet *p = this_packet();

	if (!p)
		return LEAVE;
	if (tier == TIER_MAIN) {
		set_now(p);
		set_sorted(&p->wire, &p->nat);
	}
	return on_egress_in(ctx, p, tier, family);
}

/* Whether it may be a reply of a backend, or a request that on_request_out() does not just leave.
 */
static __always_inline bool may_have_nat(const struct packet *p, enum family family)
{
	return is_marked(p, MARKS_EGRESS, &p->wire.source, port_mark(p, p->wire.source_port),
			 family) ||
	       is_marked(p, MARKS_EGRESS, &p->wire.destination,
			 port_mark(p, p->wire.destination_port) | REQUESTS_TO, family);
}

__noinline int fl_egress_main4(hook_context *ctx)
{
	return on_egress(ctx, TIER_MAIN, FAMILY_IPV4);
}

__noinline int fl_egress_main6(hook_context *ctx)
{
	return on_egress(ctx, TIER_MAIN, FAMILY_IPV6);
}

__noinline int fl_egress_new4(hook_context *ctx)
{
	return on_egress(ctx, TIER_NEW, FAMILY_IPV4);
}

__noinline int fl_egress_new6(hook_context *ctx)
{
	return on_egress(ctx, TIER_NEW, FAMILY_IPV6);
}

static __always_inline int egress(hook_context *ctx, enum family family)
{
	int action = family == FAMILY_IPV4 ? fl_egress_main4(ctx) : fl_egress_main6(ctx);

	if (action != UNDECIDED)
		return action;
	return family == FAMILY_IPV4 ? fl_egress_new4(ctx) : fl_egress_new6(ctx);
}

#endif
