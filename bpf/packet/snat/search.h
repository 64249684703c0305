/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Looks for the SNAT port of a flow: its client's own, then free ones, then one that another flow
 * no longer needs.
 */
#ifndef FAIRLEAD_SEARCH_H
#define FAIRLEAD_SEARCH_H

#include "packet/snat/snat.h"

/*
 * Whether a half-open flow may lose its port. Not while the backend may answer a datagram: another
 * client would take the answer for its own. To a SYN-ACK it answers by a RST.
 */
static __always_inline bool may_lose_port(const struct packet *p, const struct snat *held,
					  __u32 age)
{
	const struct packet_settings *s = packet_settings();

	return p->wire.protocol == PROTOCOL_TCP || held->backend_end.answered ||
	       (s && age > s->timeout_seconds.udp_new);
}

/* Of the flows that might give up their port: the one that has ended, or begun, first. */
static __always_inline void note_candidate(struct packet *p, const struct snat *held,
					   bool is_in_main)
{
	__u32 age = age_of(p->now, held->seen_seconds);

	if (is_ended(held)) {
		if (!p->ended_port || age > age_of(p->now, p->ended_seen)) {
			p->ended_port = p->snat.destination_port;
			p->ended_seen = held->seen_seconds;
		}
	} else if (!is_in_main && !held->client_end.answered && may_lose_port(p, held, age)) {
		if (!p->half_open_port || age > age_of(p->now, p->half_open_seen)) {
			p->half_open_port = p->snat.destination_port;
			p->half_open_seen = held->seen_seconds;
		}
	}
}

/*
 * The node may give such a port to a connection of its own to the same backend later, which then
 * gets another one, see own.h. Better is a port that it never gives.
 */
static __always_inline bool is_local_port(const struct packet_settings *s, __u16 port)
{
	return port >= s->local_first && port <= s->local_last;
}

/*
 * A connection of the node that began on another CPU meanwhile looks for the snat leg when it has
 * its port, and this flow for the socket when it has put the leg: one of the two sees the other.
 */
static __always_inline bool is_of_later_socket(hook_context *ctx, struct packet *p,
					       enum family family)
{
	const struct packet_settings *s = packet_settings();

	if (!s || !is_local_port(s, p->snat.destination_port) || !is_of_socket(ctx, p, family))
		return false;
	drop_snat(p, family);
	return true;
}

/* Whether the port of p->snat is this flow's, now or from before. */
static __always_inline bool take_snat_port(hook_context *ctx, struct packet *p, enum tier tier,
					   enum family family)
{
	struct snat *held = find_snat(TIER_MAIN, &p->snat, family);
	bool is_in_main = held != NULL;

	if (!held)
		held = find_snat(TIER_NEW, &p->snat, family);
	if (held && held->check == snat_check(p, family)) {
		if (!held->client_end.reserved) {
			note_request(p, held);
			return true;
		}
		drop_snat(p, family);
		held = NULL;
	}
	if (held) {
		note_candidate(p, held, is_in_main);
		return false;
	}
	if ((family == FAMILY_IPV4 ? fl_is_of_client4() : fl_is_of_client6()) ||
	    is_of_socket(ctx, p, family) ||
	    is_node_port(p, &p->snat.destination, p->snat.destination_port, family))
		return false;
	return put_own_snat(p, tier, family) && !is_of_later_socket(ctx, p, family);
}

/* Global functions take scalars; the tier is one. */
__noinline int fl_take_snat4(hook_context *ctx, __u32 port, __u32 tier)
{
	struct packet *p = this_packet();

	if (!p)
		return false;
	p->snat.destination_port = port;
	return take_snat_port(ctx, p, tier == TIER_MAIN ? TIER_MAIN : TIER_NEW, FAMILY_IPV4);
}

__noinline int fl_take_snat6(hook_context *ctx, __u32 port, __u32 tier)
{
	struct packet *p = this_packet();

	if (!p)
		return false;
	p->snat.destination_port = port;
	return take_snat_port(ctx, p, tier == TIER_MAIN ? TIER_MAIN : TIER_NEW, FAMILY_IPV6);
}

static __always_inline bool take_port(hook_context *ctx, __u16 port, enum tier tier,
				      enum family family)
{
	return family == FAMILY_IPV4 ? fl_take_snat4(ctx, port, tier)
				     : fl_take_snat6(ctx, port, tier);
}

/*
 * Deletes the leg of a port that was met in the search. False: by now another flow, which has met
 * it on another CPU, has the port, and may even have its connection.
 */
static __always_inline bool drop_met(struct packet *p, bool has_ended, enum family family)
{
	struct snat *held = find_snat_of(p, family);

	if (held &&
	    (has_ended ? !is_ended(held)
		       : held->client_end.answered || held->seen_seconds != p->half_open_seen))
		return false;
	drop_snat(p, family);
	return true;
}

__noinline int fl_drop_met4(bool has_ended)
{
	struct packet *p = this_packet();

	return p && drop_met(p, has_ended, FAMILY_IPV4);
}

__noinline int fl_drop_met6(bool has_ended)
{
	struct packet *p = this_packet();

	return p && drop_met(p, has_ended, FAMILY_IPV6);
}

/*
 * A port that was met in the search, instead of waiting for the time of its flow to run out. What
 * follows from the former client finds the leg of another flow, and gets another port.
 */
static __always_inline bool take_from_other(hook_context *ctx, struct packet *p, __u16 port,
					    bool has_ended, enum tier tier, enum family family)
{
	if (!port)
		return false;
	p->snat.destination_port = port;
	return (family == FAMILY_IPV4 ? fl_drop_met4(has_ended) : fl_drop_met6(has_ended)) &&
	       take_port(ctx, port, tier, family);
}

/*
 * Only if no port is free: the backend may have a connection that has ended in TIME-WAIT, as
 * nf_conntrack drops closing entries early. After that the port of a half-open flow: a flood of
 * them would have all.
 */
static __always_inline bool take_held_port(hook_context *ctx, struct packet *p, enum tier tier,
					   enum family family)
{
	if (take_from_other(ctx, p, p->ended_port, true, tier, family))
		return true;
	if (!take_from_other(ctx, p, p->half_open_port, false, tier, family))
		return false;
	count_reason(REASON_HALF_OPEN_EVICTED);
	return true;
}

/*
 * As many tries as nf_nat makes. The first half of those beside the node's own ports is the same
 * for each packet of the flow. When its first packet is sent again, the others are new. If 60,000
 * of the 64,512 ports are taken, one flow of a thousand finds none.
 */
#define TRIES_OF_CALL 16
#define CALLS_BESIDE  2
#define CALLS	      8

static __always_inline bool search_port(hook_context *ctx, struct packet *p, __u32 call,
					enum tier tier, enum family family)
{
	__u64 hash = hash_tuple(p->secret, &p->wire, family) + (call ? (__u64)p->now << 32 : 0);

	for (__u32 i = 0; i < TRIES_OF_CALL; i++) {
		__u32 at = nth_try(hash, call * TRIES_OF_CALL + i);
		__u16 port = call < CALLS_BESIDE ? fl_port_beside(at) : fl_port_at(at);

		if (!is_kept_port(port) && take_port(ctx, port, tier, family))
			return true;
	}
	return false;
}

/* True: p->snat is the key of the flow's new snat leg. */
__noinline int fl_search_port4(hook_context *ctx, __u32 call, __u32 tier)
{
	struct packet *p = this_packet();

	return p &&
	       search_port(ctx, p, call, tier == TIER_MAIN ? TIER_MAIN : TIER_NEW, FAMILY_IPV4);
}

__noinline int fl_search_port6(hook_context *ctx, __u32 call, __u32 tier)
{
	struct packet *p = this_packet();

	return p &&
	       search_port(ctx, p, call, tier == TIER_MAIN ? TIER_MAIN : TIER_NEW, FAMILY_IPV6);
}

/* True: p->snat is the key of the flow's new snat leg. */
static __always_inline bool take_any_port(hook_context *ctx, struct packet *p, enum tier tier,
					  enum family family)
{
	const struct packet_settings *s = packet_settings();
	__u16 own = p->wire.source_port;

	if (!s)
		return false;
	p->ended_port = 0;
	p->half_open_port = 0;
	if (p->wire.protocol == PROTOCOL_SCTP)
		return take_port(ctx, own, tier, family);
	/* Port 0 of UDP asks for no answer, and stands for none in the nat leg. */
	if (own && !is_local_port(s, own) && !is_kept_port(own) &&
	    take_port(ctx, own, tier, family))
		return true;
	for (__u32 call = 0; call < CALLS; call++) {
		if (family == FAMILY_IPV4 ? fl_search_port4(ctx, call, tier)
					  : fl_search_port6(ctx, call, tier))
			return true;
	}
	if (own && is_local_port(s, own) && !is_kept_port(own) && take_port(ctx, own, tier, family))
		return true;
	return take_held_port(ctx, p, tier, family);
}

#endif
