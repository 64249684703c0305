/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Selection: request -> find frontend -> backend of the flow or of session affinity, else random ->
 * choice. Reads the agent's maps, writes only fl_affinity, and does not count. Independent of
 * sockets and packets: hooks translate to and from these two structs, and tests run it with
 * PROG_TEST_RUN.
 */
#ifndef FAIRLEAD_SELECT_H
#define FAIRLEAD_SELECT_H

#include "common/address.h"
#include "common/backend.h"
#include "common/frontend.h"

enum verdict {
	VERDICT_LEAVE = 0,
	VERDICT_TRANSLATE = 1,
	VERDICT_REFUSE = 2,
	VERDICT_DROP = 3
} PACKED_ENUM;

/* Where a backend comes from, in the order of precedence. */
enum candidate_source { SOURCE_FLOW = 0, SOURCE_AFFINITY = 1, SOURCE_SET = 2 } PACKED_ENUM;

struct choice {
	struct address address; /* of the backend, as in struct request */
	__u32 backend_id;
	__u32 service_id;
	__u32 frontend_id; /* meaningless if verdict is VERDICT_LEAVE */
	enum reason reason;
	struct traffic_rule rule;
	__u16 port;
	__u16 generation;
	enum verdict verdict;
	__u8 is_kept;	  /* 1: the backend of the flow, not a new connection */
	__u8 by_affinity; /* 1: chosen by session affinity; added to a counter without a branch */
	__u8 masquerade;  /* 1: the client's address must become the node's */
};

static __always_inline void decide(struct choice *c, enum verdict verdict, enum reason reason)
{
	c->verdict = verdict;
	c->reason = reason;
}

struct candidate {
	__u32 id; /* 0: none */
	__u16 generation;
};

/*
 * A remembered backend counts only while it is a member of the set that this rule names, as in
 * kube-proxy: an internal and an external set differ under a Local policy.
 */
static __always_inline struct candidate remembered(const struct route *route,
						   const struct affinity_key *client)
{
	struct candidate from = {};
	struct affinity *found;
	__u64 seen_ns;

	if (!route->affinity_seconds)
		return from;
	found = bpf_map_lookup_elem(&fl_affinity, client);
	if (!found)
		return from;
	from.id = found->backend_id;
	from.generation = found->generation;
	seen_ns = found->seen_ns;
	if (bpf_ktime_get_ns() - seen_ns >= route->affinity_seconds * NS_PER_SECOND ||
	    !fl_is_member(route->rule.block, route->rule.members, from.id))
		from.id = 0;
	return from;
}

/*
 * Written in place if the client has an entry: half the cost of an update, which allocates. Of two
 * concurrent writers one wins, or the time of one stays with the backend of the other: both were
 * valid choices.
 */
static __always_inline void remember(const struct affinity_key *client, const struct choice *c)
{
	struct affinity seen = {
		.backend_id = c->backend_id,
		.generation = c->generation,
		.seen_ns = bpf_ktime_get_ns(),
	};
	struct affinity *known = bpf_map_lookup_elem(&fl_affinity, client);

	if (known)
		*known = seen;
	else
		bpf_map_update_elem(&fl_affinity, client, &seen, BPF_ANY);
}

/* Copies the candidate into the choice if its backend is still valid for that source. */
static __always_inline bool try_candidate(const struct candidate *from,
					  enum candidate_source source, const struct route *route,
					  enum family family, struct choice *c)
{
	struct backend b;

	if (!read_backend(from->id, family, &b) || b.service_id != route->service_id)
		return false;
	if (source != SOURCE_SET && b.generation != from->generation)
		return false;
	if (b.state != BACKEND_ACTIVE && !(source == SOURCE_FLOW && b.state == BACKEND_TERMINATING))
		return false;
	c->address = b.address;
	c->port = b.port;
	c->backend_id = from->id;
	c->generation = b.generation;
	c->is_kept = source == SOURCE_FLOW;
	c->by_affinity = source == SOURCE_AFFINITY;
	return true;
}

/* An earlier choice that is still valid: of this socket, else of this client. */
static __always_inline bool choose_known(const struct request *r, const struct route *route,
					 const struct affinity_key *client, enum family family,
					 struct choice *c)
{
	struct candidate from = {.id = r->flow.backend_id, .generation = r->flow.generation};

	if (r->flow.service_id == route->service_id &&
	    try_candidate(&from, SOURCE_FLOW, route, family, c))
		return true;
	from = remembered(route, client);
	return try_candidate(&from, SOURCE_AFFINITY, route, family, c);
}

/* False if the slot's backend is not the Service's: the set was read while it was replaced. */
static __always_inline bool choose_new(const struct route *route, enum family family,
				       struct choice *c)
{
	struct candidate from = {.id = fl_random_member(route->rule.block, route->rule.members)};

	return try_candidate(&from, SOURCE_SET, route, family, c);
}

/* True if the route decides without a backend. */
static __always_inline bool decide_by_route(const struct route *route, struct choice *c)
{
	c->frontend_id = route->frontend_id;
	c->service_id = route->service_id;
	c->rule = route->rule;
	c->masquerade = route->rule.flags.masquerade;
	if (route->rule.members)
		return false;
	if (route->rule.flags.drop_if_empty)
		decide(c, VERDICT_DROP, REASON_DROPPED_NO_LOCAL_BACKENDS);
	else
		decide(c, VERDICT_REFUSE, REASON_REFUSED_NO_BACKENDS);
	return true;
}

/* A backend was found. Only new connections renew session affinity. */
static __always_inline void decide_translation(const struct request *r, const struct route *route,
					       const struct affinity_key *client,
					       enum family family, struct choice *c)
{
	if (r->source_is_loopback && !is_loopback(&c->address, family)) {
		decide(c, VERDICT_LEAVE, REASON_SKIPPED_LOOPBACK_SOURCE);
		return;
	}
	decide(c, VERDICT_TRANSLATE, REASON_TRANSLATED);
	if (route->affinity_seconds && !c->is_kept)
		remember(client, c);
}

/* False if a slot named a backend of another service. */
static __always_inline bool choose(const struct request *r, const struct route *route,
				   bool is_first, enum family family, struct choice *c)
{
	struct affinity_key client = {.service_id = route->service_id, .family = family};
	bool is_known;

	__builtin_memcpy(client.client, r->source.byte, sizeof(client.client));
	is_known = is_first && choose_known(r, route, &client, family, c);
	if (!is_known && !r->may_choose_anew) {
		decide(c, VERDICT_REFUSE, REASON_FLOW_ENDED);
		return true;
	}
	if (!is_known && !choose_new(route, family, c))
		return false;
	decide_translation(r, route, &client, family, c);
	return true;
}

static __always_inline bool try_select(const struct request *r, bool is_first, enum family family,
				       struct choice *c)
{
	struct route route;

	if (!find_route(r, family, &route)) {
		decide(c, VERDICT_LEAVE, REASON_NOT_A_FRONTEND);
		return true;
	}
	return decide_by_route(&route, c) || choose(r, &route, is_first, family, c);
}

static __always_inline void select_backend(const struct request *r, enum family family,
					   struct choice *c)
{
	if (!try_select(r, true, family, c) && !try_select(r, false, family, c))
		decide(c, VERDICT_REFUSE, REASON_STALE_BACKEND);
}

#endif
