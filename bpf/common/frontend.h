/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a destination to the route that applies to a client: which frontend, and which of its two
 * sets. Owns the rules for NodePorts on node addresses; knows nothing of backends.
 */
#ifndef FAIRLEAD_FRONTEND_H
#define FAIRLEAD_FRONTEND_H

#include "common/address.h"
#include "common/config.h"
#include "common/maps.h"

enum client_position { POSITION_UNKNOWN = 0, POSITION_HOST = 1, POSITION_POD = 2 } PACKED_ENUM;

/* The backend that the flow of this request uses already. backend_id 0: none. */
struct flow_record {
	__u32 backend_id;
	__u32 service_id;
	__u16 generation;
	__u16 pad;
};

/* Who wants to go where. Zero it whole before filling it. */
struct request {
	struct address address; /* v4-mapped for IPv4 */
	__u64 netns;		/* network namespace cookie of the socket */
	struct flow_record flow;
	__u16 port; /* host order */
	enum l4_protocol protocol;
	enum client_position position;
	__u8 source_is_loopback; /* the socket is bound to a loopback address */
	__u8 pad[7];
};

/* Scalars copied out of one frontend value: nothing here points into a map. */
struct route {
	struct set_ref set;
	__u32 service_id;
	__u32 frontend_id;
	__u32 affinity_seconds;
	enum empty_verdict empty;
	__u8 has_source_ranges;
};

/*
 * An unknown position is neither: no NodePorts on loopback, and the internal set. Computed and not
 * branched upon: the verifier would walk all that follows once per position.
 */
static __always_inline enum client_position position_of(__u64 netns)
{
	__u64 difference = netns ^ node_netns_cookie;

	if (!node_netns_cookie)
		return POSITION_UNKNOWN;
	barrier_var(difference); /* the compiler would see the comparison in it */
	difference |= -difference;
	return POSITION_HOST + (difference >> 63); /* POSITION_POD if they differ */
}

/* Always known at compile time: which fields of a request make the key. */
enum match { MATCH_EXACT, MATCH_ANY_NODE_ADDRESS, MATCH_ANY_OTHER_PORT } PACKED_ENUM;

static __always_inline struct frontend *frontend_at(const struct request *r, enum match match,
						    enum family family)
{
	__u16 port = match == MATCH_ANY_OTHER_PORT ? 0 : r->port;
	enum l4_protocol protocol = match == MATCH_ANY_OTHER_PORT ? PROTOCOL_ANY : r->protocol;

	if (family == FAMILY_IPV4) {
		struct frontend4_key key = {.port = port, .protocol = protocol};

		if (match != MATCH_ANY_NODE_ADDRESS)
			__builtin_memcpy(key.address, &r->address.word[3], sizeof(key.address));
		return bpf_map_lookup_elem(&fl_frontend4, &key);
	} else {
		struct frontend6_key key = {.port = port, .protocol = protocol};

		if (match != MATCH_ANY_NODE_ADDRESS)
			__builtin_memcpy(key.address, r->address.byte, sizeof(key.address));
		return bpf_map_lookup_elem(&fl_frontend6, &key);
	}
}

static __always_inline struct node_address *node_address_of(const struct address *a,
							    enum family family)
{
	if (family == FAMILY_IPV4) {
		__be32 ipv4 = is_loopback4(a->word[3]) ? bpf_htonl(0x7f000001) : a->word[3];
		struct node_address4_key key;

		__builtin_memcpy(key.address, &ipv4, sizeof(key.address));
		return bpf_map_lookup_elem(&fl_node_addr4, &key);
	} else {
		struct node_address6_key key;

		__builtin_memcpy(key.address, a->byte, sizeof(key.address));
		return bpf_map_lookup_elem(&fl_node_addr6, &key);
	}
}

static __always_inline bool answers_node_ports(const struct request *r, enum family family)
{
	struct runtime_flags *flags = runtime_flags();
	struct node_address *node;

	if (!flags || !flags->node_ports)
		return false;
	node = node_address_of(&r->address, family);
	if (!node)
		return false;
	return node->scope == SCOPE_NODE || r->position == POSITION_HOST;
}

/*
 * One load, so that block and slots are of the same set whatever the agent does meanwhile. The load
 * is a number, for pick_set().
 */
static __always_inline __u64 read_set_ref(const struct set_ref *ref)
{
	return *(const volatile __u64 *)ref;
}

/* Chosen by a mask: after a branch the verifier would walk all that follows once per outcome. */
static __always_inline struct set_ref pick_set(__u64 internal, __u64 external, bool is_outside)
{
	__u64 mask = -(__u64)is_outside;
	union {
		__u64 word;
		struct set_ref ref;
	} picked;

	barrier_var(mask);
	picked.word = internal ^ ((internal ^ external) & mask);
	return picked.ref;
}

static __always_inline bool find_route(const struct request *r, enum family family,
				       struct route *route)
{
	struct frontend *fe = frontend_at(r, MATCH_EXACT, family);
	enum empty_verdict internal_empty, external_empty;
	bool is_outside;

	if (!fe && answers_node_ports(r, family))
		fe = frontend_at(r, MATCH_ANY_NODE_ADDRESS, family);
	if (!fe)
		fe = frontend_at(r, MATCH_ANY_OTHER_PORT, family);
	if (!fe)
		return false;
	is_outside = fe->flags.pods_are_outside &
		     (r->position >> 1); /* of positions, only POSITION_POD */
	route->set = pick_set(read_set_ref(&fe->internal), read_set_ref(&fe->external), is_outside);
	route->service_id = fe->service_id;
	route->frontend_id = fe->frontend_id;
	route->affinity_seconds = fe->affinity_seconds;
	/* Both are read: a choice between two offsets is refused to programs without CAP_PERFMON.
	 */
	internal_empty = *(const volatile enum empty_verdict *)&fe->internal_empty;
	external_empty = *(const volatile enum empty_verdict *)&fe->external_empty;
	route->empty = is_outside ? external_empty : internal_empty;
	route->has_source_ranges = fe->flags.has_source_ranges;
	return true;
}

#endif
