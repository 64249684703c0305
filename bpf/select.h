/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Selection: request -> find frontend -> pinned or affinity backend, else random -> choice.
 * Reads the agent's maps, writes only fl_affinity, counts nothing, and knows neither sockets nor
 * packets: hooks translate to and from these two structs, and tests drive it with PROG_TEST_RUN.
 */
#ifndef FAIRLEAD_SELECT_H
#define FAIRLEAD_SELECT_H

#include "address.h"
#include "backend.h"
#include "frontend.h"

/* How often the look-up is made when a slot turns out to name a backend of another service. */
#define SELECT_ATTEMPTS 2

enum verdict { LEAVE = 0, TRANSLATE = 1, FAIL_REFUSED = 2, FAIL_DROPPED = 3 } PACKED_ENUM;

struct choice {
	struct address address; /* of the backend, as in struct request */
	__u32 backend_id;
	__u32 service_id;
	__u32 frontend_id; /* meaningless if verdict is LEAVE */
	__u32 reason;	   /* enum reason */
	struct set_ref set;
	__u16 port;
	__u16 generation;
	enum verdict verdict;
	__u8 is_kept;	  /* the pinned backend: not a new connection */
	__u8 by_affinity; /* chosen by session affinity */
	__u8 pad;
};

static __always_inline void decide(struct choice *c, enum verdict verdict, enum reason reason)
{
	c->verdict = verdict;
	c->reason = reason;
}

/* Copies the backend to the choice; false if it may not be given to a new connection of the route.
 */
static __always_inline bool take_backend(const struct route *route, __u32 id, enum family family,
					 struct choice *c)
{
	struct backend b;

	if (!read_backend(id, family, &b))
		return false;
	c->address = b.address;
	c->port = b.port;
	c->backend_id = id;
	c->generation = b.generation;
	return b.service_id == route->service_id && b.state == ACTIVE;
}

/* What the socket used last for this Service address stays while its backend may be used at all. */
static __always_inline bool keep_pinned(const struct request *r, const struct route *route,
					enum family family, struct choice *c)
{
	struct backend b;

	if (!r->pin.backend_id || r->pin.service_id != route->service_id)
		return false;
	if (!read_backend(r->pin.backend_id, family, &b))
		return false;
	if (b.service_id != route->service_id || b.generation != r->pin.generation)
		return false;
	if (b.state != ACTIVE && b.state != TERMINATING)
		return false;
	c->address = b.address;
	c->port = b.port;
	c->backend_id = r->pin.backend_id;
	c->generation = b.generation;
	c->is_kept = 1;
	return true;
}

/*
 * A remembered backend counts only while it is a member of the set that applies to this path, as in
 * kube-proxy: an internal and an external set differ under a Local policy.
 */
static __always_inline bool take_remembered(const struct route *route,
					    const struct affinity_key *client, enum family family,
					    struct choice *c)
{
	struct affinity *found = bpf_map_lookup_elem(&fl_affinity, client);
	__u64 seen_ns;
	__u32 id;
	__u16 generation;

	if (!found)
		return false;
	id = found->backend_id;
	generation = found->generation;
	seen_ns = found->seen_ns;
	if (bpf_ktime_get_ns() - seen_ns >= route->affinity_seconds * NS_PER_SECOND)
		return false;
	if (!is_member(route->set, id) || !take_backend(route, id, family, c))
		return false;
	return c->generation == generation;
}

static __always_inline void remember(const struct affinity_key *client, const struct choice *c)
{
	struct affinity seen = {
		.backend_id = c->backend_id,
		.generation = c->generation,
		.seen_ns = bpf_ktime_get_ns(),
	};

	bpf_map_update_elem(&fl_affinity, client, &seen, BPF_ANY);
}

/* False if the backend is not one of the service: the set was read while it was being replaced. */
static __always_inline bool choose_backend(const struct request *r, const struct route *route,
					   enum family family, struct choice *c)
{
	struct affinity_key client = {
		.client = r->netns,
		.service_id = route->service_id,
		.family = family,
	};

	c->is_kept = 0;
	c->by_affinity = 0;
	if (keep_pinned(r, route, family, c))
		return true;
	if (route->affinity_seconds && take_remembered(route, &client, family, c))
		c->by_affinity = 1;
	else if (!take_backend(route, random_member(route->set), family, c))
		return false;
	if (r->source_is_loopback && !is_loopback(&c->address, family))
		return true; /* left alone below: not a connection to remember */
	if (route->affinity_seconds)
		remember(&client, c);
	return true;
}

static __always_inline void conclude_empty(const struct route *route, struct choice *c)
{
	if (route->empty == DROP)
		decide(c, FAIL_DROPPED, DROPPED_NO_LOCAL_BACKENDS);
	else
		decide(c, FAIL_REFUSED, REFUSED_NO_BACKENDS);
}

/* One look-up from the frontend on. False: try again. */
static __always_inline bool select_once(const struct request *r, enum family family,
					struct choice *c)
{
	struct route route;

	if (!find_route(r, family, &route)) {
		decide(c, LEAVE, NOT_A_FRONTEND);
		return true;
	}
	c->frontend_id = route.frontend_id;
	c->service_id = route.service_id;
	c->set = route.set;
	if (route.has_source_ranges)
		decide(c, LEAVE, SKIPPED_SOURCE_RANGES);
	else if (!route.set.slots)
		conclude_empty(&route, c);
	else if (!choose_backend(r, &route, family, c))
		return false;
	else if (r->source_is_loopback && !is_loopback(&c->address, family))
		decide(c, LEAVE, SKIPPED_LOOPBACK_SOURCE);
	else
		decide(c, TRANSLATE, TRANSLATED);
	return true;
}

static __always_inline void select_backend(const struct request *r, enum family family,
					   struct choice *c)
{
	for (int attempt = 0; attempt < SELECT_ATTEMPTS; attempt++)
		if (select_once(r, family, c))
			return;
	decide(c, FAIL_REFUSED, STALE_BACKEND);
}

#endif
