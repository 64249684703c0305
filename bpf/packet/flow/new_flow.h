/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * First packets, at ingress: select.h chooses a backend, and the flow and nat legs are made. The
 * snat leg follows at egress, where the device is known.
 */
#ifndef FAIRLEAD_NEW_FLOW_H
#define FAIRLEAD_NEW_FLOW_H

#include "packet/flow/credit.h"
#include "packet/flow/direct.h"
#include "packet/snat/ports.h"
#include "packet/flow/request.h"
#include "packet/hook.h"

/* --- selection ---------------------------------------------------------------------------------
 */

/* Fills what a frontend is known by. 0: most packets are to none, nothing else is asked of them. */
static __always_inline __u32 frontend_of_destination(struct packet *p, enum family family)
{
	struct request *r = &p->request;

	__builtin_memset(r, 0, sizeof(*r));
	r->address = p->wire.destination;
	r->port = p->wire.destination_port;
	r->protocol = p->wire.protocol;
	return find_frontend(r, family);
}

/* Fills the rest: where the packet comes from. */
static __always_inline void set_client(hook_context *ctx, struct packet *p)
{
	__u32 ifindex = device_of(ctx, p);
	struct device *device = bpf_map_lookup_elem(&fl_device, &ifindex);
	struct request *r = &p->request;

	r->source = p->wire.source;
	r->source_port = p->wire.source_port;
	r->position = position_of_source(&p->wire.source);
	if (device && device->ifindex == ifindex && device->flags.is_pod)
		r->position = POSITION_POD;
	p->answers_by = answers_by(ctx, p, device);
	r->source_is_address = true;
	r->may_choose_anew = is_first(p);
	if (unlikely(p->keeps_backend)) {
		r->flow.backend_id = p->flow.backend_id;
		r->flow.service_id = p->flow.service_id;
		r->flow.generation = p->flow.generation;
	}
}

/*
 * A packet that XDP leaves gets the same backend again at tc. Else a backend whose packets are left
 * would have to be chosen twice, and get fewer.
 */
static __always_inline int select_for(struct packet *p, enum family family)
{
	set_now(p);
	p->request.number = mix(hash_of_now(p, family), p->syn) >> 32;
	__builtin_memset(&p->choice, 0, sizeof(p->choice));
	select_backend(&p->request, family, &p->choice);
	return p->choice.verdict;
}

__noinline int fl_select4(void)
{
	struct packet *p = this_packet();

	return p ? select_for(p, FAMILY_IPV4) : VERDICT_LEAVE;
}

__noinline int fl_select6(void)
{
	struct packet *p = this_packet();

	return p ? select_for(p, FAMILY_IPV6) : VERDICT_LEAVE;
}

/* After VERDICT_TRANSLATE; at XDP, not before it is decided that the packet is not left. */
__noinline int fl_note_choice4(void)
{
	struct packet *p = this_packet();

	if (p)
		note_choice(&p->request, FAMILY_IPV4, &p->choice);
	return 0;
}

__noinline int fl_note_choice6(void)
{
	struct packet *p = this_packet();

	if (p)
		note_choice(&p->request, FAMILY_IPV6, &p->choice);
	return 0;
}

/* --- the legs ----------------------------------------------------------------------------------
 */

static __always_inline bool is_hairpin(const struct packet *p)
{
	return is_same_address(&p->wire.source, &p->choice.address);
}

static __always_inline void make_flow(struct packet *p)
{
	const struct choice *c = &p->choice;
	struct flow *flow = &p->flow;

	__builtin_memset(flow, 0, sizeof(*flow));
	flow->backend_id = c->backend_id;
	flow->service_id = c->service_id;
	flow->frontend_id = c->frontend_id;
	flow->backend_port = c->port;
	flow->generation = c->generation;
	flow->flags.masquerade = c->masquerade || is_hairpin(p);
	flow->flags.of_stale = p->of_stale;
	flow->seen_seconds = p->now;
	flow->born_seconds = p->now;
	flow->packets = 1;
	flow->bytes = p->length;
	p->backend = c->address;
}

/* Where the flow begins; in the other tables if the main one is full. */
static __always_inline bool put_first_nat(struct packet *p, enum family family)
{
	long error = -1;

	if (p->begins_in_main) {
		error = put_nat(TIER_MAIN, &p->nat, &p->leg, BPF_NOEXIST, family);
		if (!error || error == -EEXIST)
			return !error;
		p->begins_in_main = false;
	}
	return put_nat(TIER_NEW, &p->nat, &p->leg, BPF_NOEXIST, family) == 0;
}

/*
 * A connection that begins anew gets its SNAT port again, as the client has its own. A backend that
 * has the former one in TIME-WAIT answers the SYN by an ACK; the client ends that by a RST, and
 * sends the SYN again at once: from another port it could meet the next TIME-WAIT.
 */
static __always_inline void keep_former_port(const struct packet *p, struct nat *nat,
					     enum family family)
{
	if (!p->former_backend || !p->former_port || !nat->flags.masquerade ||
	    p->snat.source_port != p->flow.backend_port ||
	    !is_same_address(&p->snat.source, &p->backend))
		return;
	put_address(snat_address_of(nat, family), &p->snat.destination, family);
	nat->snat_port = p->former_port;
}

/*
 * Makes the nat leg with this port of the client. False: it would be that of another flow. A leg
 * that the same flow left behind begins anew, with its SNAT port.
 */
static __always_inline bool take_client_port(struct packet *p, __u16 port, enum family family)
{
	struct nat *nat;

	if (is_hairpin(p) && port == p->flow.backend_port)
		return false;
	p->flow.client_port = port;
	set_nat_key(p);
	make_nat(p, family);
	keep_former_port(p, &p->leg.nat, family);
	nat = find_nat_of(p, family);
	p->leg.nat.flags.fresh = !nat && p->syn && p->former_backend != p->flow.backend_id;
	if (!nat)
		return put_first_nat(p, family);
	if (nat->check != p->leg.nat.check)
		return false;
	/* The flow goes where its nat leg is: in the main table nothing would promote that. */
	if (p->begins_in_main && !find_nat(TIER_MAIN, &p->nat, family))
		p->begins_in_main = false;
	nat->flags = p->leg.nat.flags;
	nat->syn = p->syn;
	return true;
}

__noinline int fl_take_client4(__u32 port)
{
	struct packet *p = this_packet();

	return p ? take_client_port(p, port, FAMILY_IPV4) : 0;
}

__noinline int fl_take_client6(__u32 port)
{
	struct packet *p = this_packet();

	return p ? take_client_port(p, port, FAMILY_IPV6) : 0;
}

static __always_inline bool take(__u32 port, enum family family)
{
	return family == FAMILY_IPV4 ? fl_take_client4(port) : fl_take_client6(port);
}

/* The nat leg of p->nat is valid; p->frontend is its frontend. */
static __always_inline bool is_valid_nat(struct packet *p, struct nat *nat, enum family family)
{
	get_address(frontend_of(nat), &p->frontend, family);
	return nat->check == check_of(p, &p->nat, &p->frontend,
				      two_ports(nat->frontend_port, nat->client_port), family);
}

/* Deletes the flow that has this port of the client, if it has ended. */
static __always_inline bool free_port(struct packet *p, __u16 port, enum family family)
{
	struct flow *flow;
	struct nat *nat;
	bool has_ended = false;

	p->flow.client_port = port;
	set_nat_key(p);
	nat = find_nat_of(p, family);
	if (!nat || !is_valid_nat(p, nat, family))
		return !nat;
	p->quoted = p->wire; /* not used otherwise for a packet that is no ICMP error */
	set_flow_key(p, nat, family);
	flow = find_flow_of(p, family);
	if (flow && read_flow(p, flow, family) &&
	    (state_of(&p->flow, nat) == FLOW_CLOSED || is_over(p, nat))) {
		forget(p, family);
		p->former_port = 0; /* of another flow */
		has_ended = true;
	}
	p->wire = p->quoted;
	make_flow(p);
	return has_ended;
}

__noinline int fl_free_port4(__u32 port)
{
	struct packet *p = this_packet();

	return p ? free_port(p, port, FAMILY_IPV4) : 0;
}

__noinline int fl_free_port6(__u32 port)
{
	struct packet *p = this_packet();

	return p ? free_port(p, port, FAMILY_IPV6) : 0;
}

/*
 * A port of a flow that has ended, instead of waiting until it is swept. Only if no other is free:
 * the backend may still have the former connection in TIME-WAIT.
 */
static __always_inline bool take_ended_client_port(struct packet *p, __u64 hash, enum family family)
{
	for (__u32 probe = 0; probe <= PORT_PROBES; probe++) {
		__u16 port = probe ? probed_port(hash, probe - 1) : p->wire.source_port;

		if ((family == FAMILY_IPV4 ? fl_free_port4(port) : fl_free_port6(port)) &&
		    take(port, family)) {
			if (probe)
				count_reason(REASON_CLIENT_PORT_CHANGED);
			return true;
		}
	}
	return false;
}

/* The ports of SCTP cannot change: its CRC covers them. */
static __always_inline bool take_any_client_port(struct packet *p, enum family family)
{
	__u64 hash = hash_tuple(p->secret, &p->wire, family);

	if (take(p->wire.source_port, family))
		return true;
	if (p->wire.protocol == PROTOCOL_SCTP)
		return false;
	for (__u32 probe = 0; probe < PORT_PROBES; probe++) {
		if (take(probed_port(hash, probe), family)) {
			count_reason(REASON_CLIENT_PORT_CHANGED);
			return true;
		}
	}
	return take_ended_client_port(p, hash, family);
}

static __always_inline bool put_new_flow(struct packet *p, enum family family)
{
	__builtin_memset(&p->leg, 0, sizeof(p->leg));
	p->flow.check = flow_check(p, family);
	p->leg.flow = p->flow;
	put_address(backend_of(&p->leg.flow), &p->backend, family);
	if (p->begins_in_main && !put_flow(TIER_MAIN, &p->wire, &p->leg, BPF_ANY, family))
		return true;
	return put_flow(TIER_NEW, &p->wire, &p->leg, BPF_ANY, family) == 0;
}

/* The packet goes to the backend, or is dropped: without its legs replies would be wrong. */
static __always_inline int begin_flow(hook_context *ctx, struct packet *p, enum family family)
{
	set_now(p);
	make_flow(p);
	p->begins_in_main = is_first(p) && take_credit(p);
	if (p->wire.protocol == PROTOCOL_SCTP && p->flow.backend_port != p->wire.destination_port)
		return unanswered(REASON_DROPPED_NO_PORT);
	if (!take_any_client_port(p, family))
		return unanswered(REASON_DROPPED_NO_PORT);
	mark_frontend(p, family);
	mark_backend(p, family);
	if (!put_new_flow(p, family))
		return unanswered(REASON_DROPPED_NO_FLOW);
	fl_count_flow(p->flow.backend_id, p->flow.born_seconds);
	return to_backend(ctx, p, family);
}

__noinline int fl_begin4(hook_context *ctx)
{
	struct packet *p = this_packet();

	return p ? begin_flow(ctx, p, FAMILY_IPV4) : LEAVE;
}

__noinline int fl_begin6(hook_context *ctx)
{
	struct packet *p = this_packet();

	return p ? begin_flow(ctx, p, FAMILY_IPV6) : LEAVE;
}

/* --- a connection straight to a backend --------------------------------------------------------
 */

/* The nat leg of p->nat is valid, and the packet on the wire is its client's. */
static __always_inline bool is_of_its_client(struct packet *p, struct nat *nat, enum family family)
{
	return ascends(&p->wire) == nat->flags.client_is_source && is_valid_nat(p, nat, family);
}

/* The flow p->flow leads to the destination, which becomes a frontend of itself. */
static __always_inline void choose_destination(struct packet *p)
{
	struct choice *c = &p->choice;

	c->address = p->wire.destination;
	c->port = p->wire.destination_port;
	c->backend_id = p->flow.backend_id;
	c->service_id = p->flow.service_id;
	c->frontend_id = p->flow.frontend_id;
	c->generation = p->flow.generation;
	c->masquerade = 0;
}

/*
 * A SYN to no frontend. If a flow of the client has the nat leg that its replies would find, and
 * lives, the connection becomes a flow too, with another port for the client. The SYN of the flow
 * itself, which comes in again by a second device, is left.
 */
static __always_inline int on_direct(hook_context *ctx, enum family family)
{
	struct packet *p = this_packet();
	struct nat *nat;

	if (!p || !is_marked(p, MARKS_EGRESS, &p->wire.destination,
			     port_mark(p, p->wire.destination_port), family))
		return LEAVE;
	set_now(p);
	set_sorted(&p->wire, &p->nat);
	nat = find_nat_of(p, family);
	if (!nat || !is_of_its_client(p, nat, family) || forget_ended(p, nat, family) ||
	    nat->syn == p->syn)
		return LEAVE;
	choose_destination(p);
	return family == FAMILY_IPV4 ? fl_begin4(ctx) : fl_begin6(ctx);
}

__noinline int fl_direct4(hook_context *ctx)
{
	return on_direct(ctx, FAMILY_IPV4);
}

__noinline int fl_direct6(hook_context *ctx)
{
	return on_direct(ctx, FAMILY_IPV6);
}

#endif
