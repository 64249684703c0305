/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The legs of one flow: from one to the other, their state and their end. Without a packet that
 * would be rewritten: the sweep of expired flows needs it too.
 */
#ifndef FAIRLEAD_LEGS_H
#define FAIRLEAD_LEGS_H

#include "common/count.h"
#include "packet/flow/live.h"
#include "packet/flow/sctp.h"
#include "packet/flow/tables.h"

/* --- keys and checks of the legs of p->flow ----------------------------------------------------
 */

/* Key of the nat leg, from the request on the wire and the flow leg. */
static __always_inline void set_nat_key(struct packet *p)
{
	struct tuple request = p->wire;

	request.source_port = p->flow.client_port;
	request.destination = p->backend;
	request.destination_port = p->flow.backend_port;
	set_sorted(&request, &p->nat);
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

/* Copies the flow leg into p->flow. False: there is none, or it was given to another flow. */
static __always_inline bool read_flow(struct packet *p, struct flow *flow, enum family family)
{
	p->flow = *flow;
	get_address(backend_of(flow), &p->backend, family);
	return p->flow.check == flow_check(p, family);
}

static __always_inline struct flow *find_flow_of(const struct packet *p, enum family family)
{
	struct flow *flow = find_flow(TIER_MAIN, &p->wire, family);

	return flow ? flow : find_flow(TIER_NEW, &p->wire, family);
}

/* --- the nat leg -------------------------------------------------------------------------------
 */

static __always_inline struct nat *find_nat_of(const struct packet *p, enum family family)
{
	struct nat *nat = find_nat(TIER_MAIN, &p->nat, family);

	return nat ? nat : find_nat(TIER_NEW, &p->nat, family);
}

/* Sets p->wire to the key of the flow leg, from the nat leg and its key. */
static __always_inline void set_flow_key(struct packet *p, struct nat *nat, enum family family)
{
	p->wire.source = nat->flags.client_is_source ? p->nat.source : p->nat.destination;
	p->wire.source_port = nat->client_port;
	get_address(frontend_of(nat), &p->wire.destination, family);
	p->wire.destination_port = nat->frontend_port;
	p->wire.protocol = p->nat.protocol;
}

/* The flow of the request on the wire ends, and begins anew: see keep_former_port(). */
static __always_inline void note_former(struct packet *p, __u32 backend_id)
{
	p->former_backend = backend_id;
	p->former_port = 0;
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
	nat->syn = p->syn;
	nat->answers_by = p->answers_by;
	nat->flags.client_is_source = p->nat.source_port == p->flow.client_port &&
				      is_same_address(&p->nat.source, &p->wire.source);
	nat->flags.masquerade = p->flow.flags.masquerade;
	nat->flags.in_geneve = p->in_geneve;
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

/* Another CPU may have seen a packet a second later than this one's clock says. */
static __always_inline __u32 age_of(__u32 now, __u32 seen)
{
	return (__s32)(now - seen) > 0 ? now - seen : 0;
}

/*
 * Who has really sent a RST sends nothing but RSTs from then on. A RST that its receiver ignores,
 * because its sequence number is wrong (RFC 5961), anybody may have sent: it ends no connection
 * that goes on. A packet that a RST has overtaken is answered by another one. The end of an
 * association is not forged: see has_tag().
 */
static __always_inline bool goes_on_after_reset(const struct packet *p)
{
	return (p->tcp_flags & (TCP_RST | TCP_SYN | TCP_ACK)) == TCP_ACK;
}

/*
 * Sequence numbers of one connection that are seen one after the other differ by no more than its
 * window, so that one that is farther away is forged. In units of 64 KiB: 32 MiB, the most that
 * Linux gives a connection's buffer unless it is told otherwise (tcp_rmem).
 */
#define NEAR_SEQUENCES 512

static __always_inline bool is_near(__u16 a, __u16 b)
{
	return (__u16)(a - b + NEAR_SEQUENCES) <= 2 * NEAR_SEQUENCES;
}

/* Whether the packet may be of the client of a flow that has come so far. */
static __always_inline bool is_of_sender(const struct packet *p, tcp_progress flow)
{
	return !flow || is_near(p->progress >> 16, flow >> 16);
}

/* Whether it may be of its backend: it continues what the client acknowledges. */
static __always_inline bool is_of_receiver(const struct packet *p, tcp_progress flow)
{
	return !flow || is_near(p->progress >> 16, flow);
}

/*
 * Of the client. What is forged, and far away, leaves it as it is. What it acknowledges may jump by
 * a whole window, when a gap is filled.
 */
static __always_inline void note_progress(const struct packet *p, tcp_progress *flow)
{
	if ((p->tcp_flags & (TCP_SYN | TCP_RST | TCP_ACK)) != TCP_ACK || *flow == p->progress)
		return;
	if (is_of_sender(p, *flow))
		*flow = p->progress;
}

/*
 * A packet of the client that is far away, and yet not forged: the backend acknowledges its place,
 * and it acknowledges that of the backend. Packets between have taken another way.
 */
static __always_inline bool catches_up(const struct packet *p, tcp_progress flow,
				       tcp_progress backend)
{
	return (p->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_ACK && !is_of_sender(p, flow) &&
	       backend && is_near(p->progress >> 16, backend) &&
	       is_near(p->progress, backend >> 16);
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

/* Of p->flow: neither side has sent anything for as long as its state lets it live. */
static __always_inline bool is_over(const struct packet *p, struct nat *nat)
{
	const struct packet_settings *s = packet_settings();
	enum flow_state state = nat ? state_of(&p->flow, nat) : p->flow.state;
	__u32 age = age_of(p->now, p->flow.seen_seconds);

	if (nat && age_of(p->now, nat->seen_seconds) < age)
		age = age_of(p->now, nat->seen_seconds);
	return s && age > timeout_of(s, p->wire.protocol, state);
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

/* --- the snat leg ------------------------------------------------------------------------------
 */

static __always_inline struct snat *find_snat_of(const struct packet *p, enum family family)
{
	struct snat *snat = find_snat(TIER_MAIN, &p->snat, family);

	return snat ? snat : find_snat(TIER_NEW, &p->snat, family);
}

/* What the leg of p->snat has as its check if it is that of the nat leg. */
static __always_inline __u32 own_snat_check(const struct packet *p, const struct nat *nat,
					    enum family family)
{
	const struct tuple *key = &p->nat;
	struct address client = nat->flags.client_is_source ? key->source : key->destination;
	__u16 port = nat->flags.client_is_source ? key->source_port : key->destination_port;

	return check_of(p, &p->snat, &client, port, family);
}

/* The snat leg of a nat leg; NULL: there is none, or another flow has its port by now. */
static __always_inline struct snat *find_own_snat(struct packet *p, struct nat *nat,
						  enum family family)
{
	struct snat *snat;

	if (!set_snat_key(p, nat, family))
		return NULL;
	snat = find_snat_of(p, family);
	return snat && snat->check == own_snat_check(p, nat, family) ? snat : NULL;
}

/* Notes in the snat leg whether one side ends the connection. */
static __always_inline void note_end(const struct packet *p, struct tcp_end *end)
{
	if (p->tcp_flags & TCP_FIN)
		end->fin |= p->may_end;
	if (p->tcp_flags & TCP_RST)
		end->reset |= p->may_end;
	else if (end->reset && goes_on_after_reset(p))
		end->reset = 0;
}

/* As FLOW_CLOSED, from the snat leg alone. */
static __always_inline bool is_ended(const struct snat *snat)
{
	return (snat->client_end.fin & snat->backend_end.fin) | snat->client_end.reset |
	       snat->backend_end.reset;
}

/* Both sides have sent a FIN, and none a RST: one of them has the connection in TIME-WAIT. */
static __always_inline bool is_in_time_wait(const struct snat *snat)
{
	return (snat->client_end.fin & snat->backend_end.fin) &&
	       !(snat->client_end.reset | snat->backend_end.reset);
}

/* A port that is reserved may be evicted: the main table is for flows. */
static __always_inline void end_own_snat(struct packet *p, __u32 check, enum tier tier,
					 enum family family)
{
	struct snat *snat = find_snat(tier, &p->snat, family);

	if (!snat || snat->check != check)
		return;
	if (is_in_time_wait(snat)) {
		snat->client_end.reserved = 1;
		if (tier == TIER_NEW)
			return;
		put_snat(TIER_NEW, &p->snat, snat, BPF_ANY, family);
	}
	delete_snat(tier, &p->snat, family);
}

/*
 * Deletes the snat leg of a nat leg, or leaves it to reserve its port. The port may be another
 * flow's by now, which keeps it.
 */
static __always_inline void forget_snat(struct packet *p, struct nat *nat, enum family family)
{
	__u32 check;

	if (!set_snat_key(p, nat, family))
		return;
	p->former_port = nat->snat_port;
	check = own_snat_check(p, nat, family);
	end_own_snat(p, check, TIER_NEW, family);
	end_own_snat(p, check, TIER_MAIN, family);
}

/* Of several that delete the flow leg one takes it from the count. */
static __always_inline void forget_flow(struct packet *p, enum family family)
{
	bool was_in_main = !delete_flow(TIER_MAIN, &p->wire, family);
	bool was_in_new = !delete_flow(TIER_NEW, &p->wire, family);

	if (was_in_main || was_in_new)
		fl_count_end(p->flow.backend_id, p->flow.service_id, p->flow.generation,
			     p->flow.born_seconds, family);
}

/* Deletes all legs of the flow of the request on the wire. */
static __always_inline void forget(struct packet *p, enum family family)
{
	struct nat *nat = find_nat_of(p, family);

	if (nat && nat->check != nat_check(p, family))
		nat = NULL; /* another flow's */
	keep_traffic(&p->flow, nat);
	if (nat) {
		forget_snat(p, nat, family);
		delete_nat(TIER_MAIN, &p->nat, family);
		delete_nat(TIER_NEW, &p->nat, family);
	}
	forget_flow(p, family);
}

#endif
