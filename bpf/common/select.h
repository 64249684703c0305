/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Selection: request -> find frontend -> backend of the flow or of session affinity, else by the
 * algorithm of the set -> choice. Reads the agent's maps, and does not count. What the next
 * selections need is written by note_choice() alone (fl_affinity, fl_turn): a choice that is not
 * used has no effect. Independent of sockets and packets: hooks translate to and from these two
 * structs, and tests run it with PROG_TEST_RUN.
 */
#ifndef FAIRLEAD_SELECT_H
#define FAIRLEAD_SELECT_H

#include "common/address.h"
#include "common/algorithm.h"
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
	__u8 is_kept;	   /* 1: the backend of the flow, not a new connection */
	__u8 by_affinity;  /* 1: chosen by session affinity; added to a counter without a branch */
	__u8 masquerade;   /* 1: the client's address must become the node's, for this backend */
	__u32 turn;	   /* the slot that fl_take_turn() gets when the choice is used; 0: none */
	__u8 for_affinity; /* 1: session affinity remembers it when it is used */
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
	const struct traffic_rule_flags *flags = &route->rule.flags;
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
	c->masquerade = flags->masquerade & ~(flags->keeps_local_client & b.is_local);
	return true;
}

/* The backend that the flow already uses. */
static __always_inline bool choose_kept(const struct request *r, const struct route *route,
					enum family family, struct choice *c)
{
	struct candidate from = {.id = r->flow.backend_id, .generation = r->flow.generation};

	return r->flow.service_id == route->service_id &&
	       try_candidate(&from, SOURCE_FLOW, route, family, c);
}

/* The backend that session affinity remembers for this client. */
static __always_inline bool choose_remembered(const struct route *route,
					      const struct affinity_key *client, enum family family,
					      struct choice *c)
{
	struct candidate from = remembered(route, client);

	return try_candidate(&from, SOURCE_AFFINITY, route, family, c);
}

/* Of the node's address, as it is in memory; of IPv4 there is one. 0: it is not known. */
__noinline __u64 fl_node_half(__u32 family, __u32 half)
{
	struct node *node = bpf_map_lookup_elem(&fl_node, &runtime_key);
	__u64 found = 0;

	if (!node)
		return 0;
	if (family == FAMILY_IPV4)
		return *(const __be32 *)as_address(node->address4);
	__builtin_memcpy(&found, half ? &node->address6[8] : &node->address6[0], sizeof(found));
	return found;
}

/*
 * The address that packets of the request have as their source. A socket of the node that is bound
 * to no address will have one of the node's. False: not known yet.
 */
static __always_inline bool find_source(const struct request *r, enum family family,
					struct address *source)
{
	__u64 half;

	*source = r->source_is_address ? r->source : r->bound;
	if (r->source_is_address || !is_unspecified(source, family))
		return true;
	if (r->position != POSITION_HOST)
		return false;
	half = fl_node_half(family, 0);
	if (family == FAMILY_IPV4) {
		set_ipv4(source, half);
		return half;
	}
	__builtin_memcpy(&source->byte[0], &half, sizeof(half));
	half = fl_node_half(family, 1);
	__builtin_memcpy(&source->byte[8], &half, sizeof(half));
	return half;
}

/* For fl_hash. Without a branch, of which the verifier would walk both sides to the end. */
static __always_inline __u64 hash_rest(const struct request *r, const struct route *route)
{
	__u32 has_affinity = -route->affinity_seconds >> 31; /* of at most days */
	__u64 how = route->rule.kind | has_affinity << 8 | r->source_is_address << 9;

	return how << 40 | (__u64)r->protocol << 32 | (__u32)r->source_port << 16 | r->port;
}

/* A source that is not known yet is that of session affinity: all sockets of a pod are one. */
static __always_inline __u64 member_by_algorithm(const struct request *r, const struct route *route,
						 __u32 number, enum family family)
{
	const struct traffic_rule *rule = &route->rule;
	__u64 from_high, from_low, to_high, to_low;
	struct address source;
	__u32 hash;

	if (!find_source(r, family, &source))
		source = r->source;
	__builtin_memcpy(&from_high, &source.byte[0], sizeof(from_high));
	__builtin_memcpy(&from_low, &source.byte[8], sizeof(from_low));
	__builtin_memcpy(&to_high, &r->address.byte[0], sizeof(to_high));
	__builtin_memcpy(&to_low, &r->address.byte[8], sizeof(to_low));
	hash = fl_hash(from_high, from_low, to_high, to_low, hash_rest(r, route));
	return fl_member_by(rule->kind, rule->block, rule->members,
			    has_hash(rule->kind) ? hash : number);
}

/* As fl_member_by. */
static __always_inline __u64 new_member(const struct request *r, const struct route *route,
					bool is_first, enum family family)
{
	const struct traffic_rule *rule = &route->rule;
	__u32 number = fl_number(r->number, is_first);

	if (rule->kind == SET_RANDOM)
		return fl_slot_of_run(rule->block, slot_by(number, rule->members));
	return member_by_algorithm(r, route, number, family);
}

/* False if the slot's backend is not the Service's: the set was read while it was replaced. */
static __always_inline bool choose_new(const struct request *r, const struct route *route,
				       bool is_first, enum family family, struct choice *c)
{
	__u64 member = new_member(r, route, is_first, family);
	struct candidate from = {.id = member};

	c->turn = member >> 32;
	if (try_candidate(&from, SOURCE_SET, route, family, c))
		return true;
	fl_take_turn(route->rule.block, c->turn);
	c->turn = 0;
	return false;
}

/*
 * True if the source decides: it is in none of the ranges, or not known. Comes before an empty set,
 * so that a client that may not use the address learns nothing from it.
 */
static __always_inline bool decide_by_source(const struct request *r, const struct route *route,
					     enum family family, struct choice *c)
{
	struct address source;

	if (!route->rule.flags.source_ranges)
		return false;
	if (!find_source(r, family, &source)) {
		decide(c, VERDICT_LEAVE, REASON_SKIPPED_SOURCE_RANGES);
		return true;
	}
	if (source_is_allowed(route->service_id, &source))
		return false;
	decide(c, VERDICT_DROP, REASON_DROPPED_SOURCE_RANGES);
	return true;
}

/* True if the route decides without a backend. */
static __always_inline bool decide_by_route(const struct route *route, struct choice *c)
{
	if (route->rule.members)
		return false;
	if (route->rule.flags.drop_if_empty)
		decide(c, VERDICT_DROP, REASON_DROPPED_NO_LOCAL_BACKENDS);
	else
		decide(c, VERDICT_REFUSE, REASON_REFUSED_NO_BACKENDS);
	return true;
}

/* A backend was found. */
static __always_inline void decide_translation(const struct request *r, enum family family,
					       struct choice *c)
{
	if (r->source_is_loopback && !is_loopback(&c->address, family))
		decide(c, VERDICT_LEAVE, REASON_SKIPPED_LOOPBACK_SOURCE);
	else
		decide(c, VERDICT_TRANSLATE, REASON_TRANSLATED);
}

static __always_inline struct affinity_key affinity_key_of(const struct request *r,
							   __u32 service_id, enum family family)
{
	struct affinity_key client = {.service_id = service_id, .family = family};

	__builtin_memcpy(client.client, r->source.byte, sizeof(client.client));
	return client;
}

/*
 * A backend for a new connection, which renews session affinity. False if a slot named a backend of
 * another service.
 */
static __always_inline bool choose(const struct request *r, const struct route *route,
				   bool is_first, enum family family, struct choice *c)
{
	struct affinity_key client = affinity_key_of(r, route->service_id, family);

	if (!r->may_choose_anew) {
		decide(c, VERDICT_REFUSE, REASON_FLOW_ENDED);
		return true;
	}
	if (!(is_first && choose_remembered(route, &client, family, c)) &&
	    !choose_new(r, route, is_first, family, c))
		return false;
	decide_translation(r, family, c);
	c->for_affinity = route->affinity_seconds != 0;
	return true;
}

/* Source ranges are for new connections: a flow that keeps its backend is not asked again. */
static __always_inline bool try_select(const struct request *r, bool is_first, enum family family,
				       struct choice *c)
{
	struct route route;

	if (!find_route(r, family, &route)) {
		decide(c, VERDICT_LEAVE, REASON_NOT_A_FRONTEND);
		return true;
	}
	c->frontend_id = route.frontend_id;
	c->service_id = route.service_id;
	c->rule = route.rule;
	if (is_first && route.rule.members && choose_kept(r, &route, family, c)) {
		decide_translation(r, family, c);
		return true;
	}
	return decide_by_source(r, &route, family, c) || decide_by_route(&route, c) ||
	       choose(r, &route, is_first, family, c);
}

/* Of a choice that try_select() has not made, at the second attempt. */
static __always_inline void refuse_stale_backend(struct choice *c)
{
	decide(c, VERDICT_REFUSE, REASON_STALE_BACKEND);
}

/* The choice has no effect: note_choice() follows if it is used. */
static __always_inline void select_backend(const struct request *r, enum family family,
					   struct choice *c)
{
	if (!try_select(r, true, family, c) && !try_select(r, false, family, c))
		refuse_stale_backend(c);
}

/* Of VERDICT_TRANSLATE. */
static __always_inline void note_choice(const struct request *r, enum family family,
					const struct choice *c)
{
	struct affinity_key client;

	if (c->turn)
		fl_take_turn(c->rule.block, c->turn);
	if (!c->for_affinity)
		return;
	client = affinity_key_of(r, c->service_id, family);
	remember(&client, c);
}

#endif
