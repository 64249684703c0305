/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Request packets of known flows, at ingress: the flow leg says which backend. Also keeps the other
 * legs complete, and moves flows that the backend has answered into the main tables.
 */
#ifndef FAIRLEAD_FLOW_H
#define FAIRLEAD_FLOW_H

#include "packet/rewrite.h"
#include "packet/tables.h"

/* UDP packets that each side must have sent: a question and its answer stay half-open. */
#define UDP_ESTABLISHED 2

/* --- keys and checks of the legs of p->flow ----------------------------------------------------
 */

/* Key of the nat leg, from the request on the wire and the flow leg. */
static __always_inline void set_nat_key(struct packet *p)
{
	struct tuple request = p->wire;

	request.source_port = p->flow.client_port;
	request.destination = p->backend;
	request.destination_port = p->flow.backend_port;
	if (ascends(&request))
		p->nat = request;
	else
		reverse(&request, &p->nat);
}

static __always_inline __u32 flow_check(const struct packet *p, enum family family)
{
	return check_of(p, &p->wire, &p->backend,
			two_ports(p->flow.backend_port, p->flow.client_port), family);
}

/* Of the nat leg of the flow of the request on the wire. */
static __always_inline __u32 nat_check(const struct packet *p, enum family family)
{
	return check_of(p, &p->nat, &p->wire.destination,
			two_ports(p->wire.destination_port, p->wire.source_port), family);
}

/* --- the nat leg -------------------------------------------------------------------------------
 */

static __always_inline struct nat *find_nat_of(const struct packet *p, enum family family)
{
	struct nat *nat = find_nat(TIER_MAIN, &p->nat, family);

	return nat ? nat : find_nat(TIER_NEW, &p->nat, family);
}

/* A new nat leg of the request on the wire in p->leg. */
static __always_inline void make_nat(struct packet *p, enum family family)
{
	struct nat *nat = &p->leg.nat;

	__builtin_memset(&p->leg, 0, sizeof(p->leg));
	nat->check = nat_check(p, family);
	nat->seen_seconds = p->now;
	nat->frontend_port = p->wire.destination_port;
	nat->client_port = p->wire.source_port;
	nat->flags.client_is_source = p->nat.source_port == p->flow.client_port &&
				      is_same_address(&p->nat.source, &p->wire.source);
	nat->flags.masquerade = p->flow.flags.masquerade;
	put_address(frontend_of(nat), &p->wire.destination, family);
}

/* --- life of a flow ----------------------------------------------------------------------------
 */

static __always_inline __u32 timeout_of(const struct packet_settings *s, __u8 protocol,
					enum flow_state state)
{
	const struct flow_timeouts *t = &s->timeout_seconds;

	if (protocol == PROTOCOL_UDP)
		return state == FLOW_NEW ? t->udp_new : t->udp_established;
	switch (state) {
	case FLOW_NEW:
		return t->tcp_new;
	case FLOW_ESTABLISHED:
		return t->tcp_established;
	case FLOW_HALF_CLOSED:
		return t->tcp_half_closed;
	default:
		return t->tcp_closed;
	}
}

/* From what both sides have sent. */
static __always_inline enum flow_state state_of(const struct flow *flow, const struct nat *nat)
{
	if (flow->flags.reset | nat->flags.reset)
		return FLOW_CLOSED;
	if (flow->flags.client_fin & nat->flags.backend_fin)
		return FLOW_CLOSED;
	if (flow->flags.client_fin | nat->flags.backend_fin)
		return FLOW_HALF_CLOSED;
	return flow->state == FLOW_NEW ? FLOW_NEW : FLOW_ESTABLISHED;
}

static __always_inline bool is_answered(const struct packet *p, const struct flow *flow,
					const struct nat *nat)
{
	if (!nat->flags.replied)
		return false;
	if (p->wire.protocol == PROTOCOL_UDP)
		return flow->packets >= UDP_ESTABLISHED && nat->reply_packets >= UDP_ESTABLISHED;
	return true;
}

static __always_inline bool has_expired(const struct packet *p, const struct packet_settings *s)
{
	return p->now - p->flow.seen_seconds > timeout_of(s, p->wire.protocol, p->flow.state);
}

/* A backend that no longer takes new connections keeps those that it has. */
static __always_inline bool backend_is_there(const struct packet *p, enum family family)
{
	struct backend b;

	return read_backend(p->flow.backend_id, family, &b) && b.service_id == p->flow.service_id &&
	       b.generation == p->flow.generation &&
	       (b.state == BACKEND_ACTIVE || b.state == BACKEND_TERMINATING);
}

static __always_inline bool has_ended(const struct packet *p, enum family family)
{
	struct nat *nat = find_nat_of(p, family);
	enum flow_state state = nat ? state_of(&p->flow, nat) : p->flow.state;

	return state == FLOW_HALF_CLOSED || state == FLOW_CLOSED;
}

/* --- both tiers --------------------------------------------------------------------------------
 */

/* Counters of a flow that ends are kept for its frontend. */
static __always_inline void keep_traffic(const struct flow *flow, const struct nat *nat)
{
	struct traffic *sum = bpf_map_lookup_elem(&fl_traffic, &flow->frontend_id);

	if (!sum)
		return;
	__sync_fetch_and_add(&sum->packets, flow->packets);
	__sync_fetch_and_add(&sum->bytes, flow->bytes);
	if (!nat)
		return;
	__sync_fetch_and_add(&sum->reply_packets, nat->reply_packets);
	__sync_fetch_and_add(&sum->reply_bytes, nat->reply_bytes);
}

/* Key of the snat leg, from the key of the nat leg. False if it has none yet. */
static __always_inline bool set_snat_key(struct packet *p, struct nat *nat, enum family family)
{
	const struct tuple *key = &p->nat;

	if (!nat->flags.masquerade || !nat->snat_port)
		return false;
	p->snat.source = nat->flags.client_is_source ? key->destination : key->source;
	p->snat.source_port =
		nat->flags.client_is_source ? key->destination_port : key->source_port;
	get_address(snat_address_of(nat, family), &p->snat.destination, family);
	p->snat.destination_port = nat->snat_port;
	p->snat.protocol = key->protocol;
	return true;
}

/* Deletes all legs of the flow of the request on the wire. */
static __always_inline void forget(struct packet *p, enum family family)
{
	struct nat *nat = find_nat_of(p, family);

	if (nat && nat->check != nat_check(p, family))
		nat = NULL; /* another flow's */
	keep_traffic(&p->flow, nat);
	if (nat && set_snat_key(p, nat, family)) {
		delete_snat(TIER_MAIN, &p->snat, family);
		delete_snat(TIER_NEW, &p->snat, family);
	}
	if (nat) {
		delete_nat(TIER_MAIN, &p->nat, family);
		delete_nat(TIER_NEW, &p->nat, family);
	}
	delete_flow(TIER_MAIN, &p->wire, family);
	delete_flow(TIER_NEW, &p->wire, family);
}

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
		delete_nat(TIER_MAIN, &p->nat, family);
		return false;
	}
	delete_flow(TIER_NEW, &p->wire, family);
	delete_nat(TIER_NEW, &p->nat, family);
	if (snat)
		delete_snat(TIER_NEW, &p->snat, family);
	return true;
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
	may_promote = p->flow.state == FLOW_NEW || p->flow.seen_seconds != p->now;
	if (tier == TIER_NEW && may_promote && is_answered(p, flow, nat)) {
		flow->state = FLOW_ESTABLISHED;
		flow->state = state_of(flow, nat);
		if (!promote(p, flow, nat, family))
			count_reason(REASON_FLOW_TABLE_FULL);
		return true;
	}
	flow->state = state_of(flow, nat);
	return true;
}

/* --- a request ---------------------------------------------------------------------------------
 */

/* False: this packet begins a new flow. */
static __always_inline bool goes_on(struct packet *p, enum family family)
{
	const struct packet_settings *s = packet_settings();

	if (!s)
		return true;
	if (!is_first(p))
		return !s->flags.reset_gone || backend_is_there(p, family);
	if (has_expired(p, s) || !backend_is_there(p, family))
		return false;
	return p->wire.protocol != PROTOCOL_TCP || !has_ended(p, family);
}

/* Not atomic: packets of one flow meet on two CPUs seldom, and then only a count is lost. */
static __always_inline void account(struct packet *p, struct flow *flow)
{
	flow->packets += 1;
	flow->bytes += p->length;
	if (flow->seen_seconds != p->now)
		flow->seen_seconds = p->now;
	if (p->tcp_flags & TCP_FIN)
		flow->flags.client_fin = 1;
	if (p->tcp_flags & TCP_RST)
		flow->flags.reset = 1;
}

/* The client's port differs for the backend only if two of its flows would look the same to it. */
static __always_inline int to_backend(struct __sk_buff *skb, struct packet *p, enum family family)
{
	int action = LEAVE;

	if (p->flow.client_port != p->wire.source_port)
		action = set_source(skb, p, &p->wire.source, p->flow.client_port, family);
	if (action != LEAVE)
		return action;
	return set_destination(skb, p, &p->backend, p->flow.backend_port, family);
}

/* Copies the flow leg into p->flow. False: there is none, or it was given to another flow. */
static __always_inline bool read_flow(struct packet *p, struct flow *flow, enum family family)
{
	p->flow = *flow;
	get_address(backend_of(flow), &p->backend, family);
	return p->flow.check == flow_check(p, family);
}

static __always_inline int on_request_in(struct __sk_buff *skb, struct packet *p, enum tier tier,
					 enum family family)
{
	struct flow *flow = find_flow(tier, &p->wire, family);
	bool is_tended;

	if (!flow || !read_flow(p, flow, family))
		return UNDECIDED;
	set_nat_key(p);
	/* Half-open legs may be evicted at any time; others are looked after once a second. */
	is_tended = tier == TIER_MAIN && p->flow.seen_seconds == p->now &&
		    !(p->tcp_flags & (TCP_FIN | TCP_RST));
	if (!goes_on(p, family) || (account(p, flow), !is_tended && !tend(p, flow, tier, family))) {
		if (family == FAMILY_IPV4)
			fl_forget4();
		else
			fl_forget6();
		return UNDECIDED;
	}
	return to_backend(skb, p, family);
}

static __always_inline int on_request(struct __sk_buff *skb, enum family family)
{
	struct packet *p = this_packet();
	int action;

	if (!p)
		return LEAVE;
	action = on_request_in(skb, p, TIER_MAIN, family);
	return action == UNDECIDED ? on_request_in(skb, p, TIER_NEW, family) : action;
}

__noinline int fl_request4(struct __sk_buff *skb)
{
	return on_request(skb, FAMILY_IPV4);
}

__noinline int fl_request6(struct __sk_buff *skb)
{
	return on_request(skb, FAMILY_IPV6);
}

#endif
