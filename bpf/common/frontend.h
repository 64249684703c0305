/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a destination to the route that applies to a client: which frontend, and which of its rules.
 * Decides which node addresses answer NodePorts and which sources are in ranges; of backends it
 * reads only a set's service id.
 */
#ifndef FAIRLEAD_FRONTEND_H
#define FAIRLEAD_FRONTEND_H

#include <stddef.h>

#include "common/address.h"
#include "common/backend.h"
#include "common/config.h"
#include "common/maps.h"

/* The backend that the flow of this request already uses. backend_id 0: none. */
struct flow_record {
	__u32 backend_id;
	__u32 service_id;
	__u16 generation;
	__u16 pad;
};

/* Client and destination. Zero all of it before filling it. */
struct request {
	struct address address; /* v4-mapped for IPv4 */
	struct address source;	/* as session affinity tells clients apart */
	struct flow_record flow;
	__u16 source_port; /* 0: not known yet */
	__u16 pad;
	__u16 port; /* host order */
	enum l4_protocol protocol;
	enum client_position position;
	__u8 source_is_loopback; /* the socket is bound to a loopback address */
	__u8 may_choose_anew;	 /* 0: an established flow, which keeps its backend or has none */
	__u8 source_is_address;	 /* `source` is the source of its packets, else see `bound` */
	__u8 pad2;
	struct address
		bound; /* of a socket: the source of its packets; unspecified: not known yet */
	__u32 number;  /* random choices go by it: a packet chooses the same again; 0: by any */
};

/* Scalars copied out of one frontend: no pointers into a map. */
struct route {
	struct traffic_rule rule;
	__u32 service_id; /* of the rule's set; of the frontend if that is empty */
	__u32 frontend_id;
	__u32 affinity_seconds;
};

/*
 * The position of a socket, from its network namespace. A packet's position comes from its source
 * address, and only that can be OUTSIDE.
 */
static __always_inline enum client_position position_of(__u64 netns)
{
	if (!node_netns_cookie)
		return POSITION_UNKNOWN;
	return netns == node_netns_cookie ? POSITION_HOST : POSITION_POD;
}

/*
 * A socket has no source address before it connects: its network namespace, one per pod, stands for
 * it, as 100::<cookie>. RFC 6666 has networks discard that source, and packets with it are left,
 * see parse.h: so none is taken for a socket. Packets of a pod that bypasses the socket layer have
 * the pod's address, so a pod is one client or the other, never both at once.
 */
static __always_inline void set_netns_source(struct address *source, __u64 netns)
{
	source->word[0] = bpf_htonl(0x01000000);
	source->word[1] = 0;
	source->word[2] = bpf_htonl(netns >> 32);
	source->word[3] = bpf_htonl(netns);
}

/*
 * The kind of the longest range of the service port that contains the address, RANGE_NONE if none
 * does. The address in two halves: a global function takes at most five scalars.
 */
__noinline __u32 fl_range_of(__u32 service_id, __u64 high, __u64 low)
{
	struct source_range_key key = {.prefixlen = 160, .service_id = service_id};
	struct source_range *range;
	__u8 family;

	__builtin_memcpy(&key.address[0], &high, sizeof(high));
	__builtin_memcpy(&key.address[8], &low, sizeof(low));
	family = is_mapped(as_address(key.address)) ? FAMILY_IPV4 : FAMILY_IPV6;
	range = bpf_map_lookup_elem(&fl_range, &key);
	return range && range->family == family ? range->kind : RANGE_NONE;
}

static __always_inline enum range_kind range_containing(const struct address *a, __u32 service_id)
{
	__u64 high, low;

	__builtin_memcpy(&high, &a->byte[0], sizeof(high));
	__builtin_memcpy(&low, &a->byte[8], sizeof(low));
	return fl_range_of(service_id, high, low);
}

/* Whether the source may use the frontends of the service port that have source ranges. */
static __always_inline bool source_is_allowed(__u32 service_id, const struct address *source)
{
	return range_containing(source, service_id) == RANGE_ALLOWED;
}

/*
 * The position of a packet's sender, by the address alone: POD if a local detector with a CIDR says
 * so. A detector of interfaces is a property of the device, and packets that the node itself sends
 * are not asked about.
 */
static __always_inline enum client_position position_of_source(const struct address *source)
{
	return range_containing(source, 0) == RANGE_POD ? POSITION_POD : POSITION_OUTSIDE;
}

/* Look-ups of a key that is being deleted. */
#define PROBES 2

/* Always a compile-time constant: which fields of a request make the key. */
enum match { MATCH_EXACT, MATCH_ANY_NODE_ADDRESS, MATCH_ANY_OTHER_PORT } PACKED_ENUM;

static __always_inline struct frontend *frontend_with(__u32 id)
{
	return bpf_map_lookup_elem(&fl_frontend, &id);
}

/* Whether this is the frontend of the key, and not another one that reuses the memory of the key.
 */
static __always_inline bool has_key(const struct frontend *fe, const struct address *address,
				    __u16 port, enum l4_protocol protocol)
{
	return fe->port == port && fe->protocol == protocol &&
	       is_same_address(as_address(fe->address), address);
}

/* One look-up by key; 0: nothing there. */
static __always_inline __u32 probe4(__be32 ipv4, __u16 port, enum l4_protocol protocol)
{
	struct frontend4_key key = {.port = port, .protocol = protocol};
	struct frontend_ref *ref;

	__builtin_memcpy(key.address, &ipv4, sizeof(key.address));
	ref = bpf_map_lookup_elem(&fl_frontend4, &key);
	return ref ? *(const volatile __u32 *)&ref->frontend_id : 0;
}

static __always_inline __u32 probe6(const struct address *address, __u16 port,
				    enum l4_protocol protocol)
{
	struct frontend6_key key = {.port = port, .protocol = protocol};
	struct frontend_ref *ref;

	__builtin_memcpy(key.address, address->byte, sizeof(key.address));
	ref = bpf_map_lookup_elem(&fl_frontend6, &key);
	return ref ? *(const volatile __u32 *)&ref->frontend_id : 0;
}

/*
 * Id of the frontend of a key, 0: none. A key that is found while it is being deleted may lead to
 * another frontend; a second look-up decides. A key that stays is never missed: its element is
 * never replaced, and a reader on an element that moved to another bucket restarts
 * (lookup_nulls_elem_raw).
 */
__noinline __u32 fl_find_frontend4(__be32 ipv4, __u32 port, __u32 protocol)
{
	struct address address = {};

	if (ipv4)
		set_ipv4(&address, ipv4);
	for (int probe = 0; probe < PROBES; probe++) {
		__u32 id = probe4(ipv4, port, protocol);
		const struct frontend *fe = id ? frontend_with(id) : NULL;

		if (!fe)
			return 0;
		if (has_key(fe, &address, port, protocol))
			return id;
	}
	return 0;
}

/* As fl_find_frontend4. The address in two halves: a global function takes at most five scalars. */
__noinline __u32 fl_find_frontend6(__u64 high, __u64 low, __u32 port, __u32 protocol)
{
	struct address address;

	__builtin_memcpy(&address.byte[0], &high, sizeof(high));
	__builtin_memcpy(&address.byte[8], &low, sizeof(low));
	for (int probe = 0; probe < PROBES; probe++) {
		__u32 id = probe6(&address, port, protocol);
		const struct frontend *fe = id ? frontend_with(id) : NULL;

		if (!fe)
			return 0;
		if (has_key(fe, &address, port, protocol))
			return id;
	}
	return 0;
}

static __always_inline __u32 frontend_at(const struct request *r, enum match match,
					 enum family family)
{
	__u16 port = match == MATCH_ANY_OTHER_PORT ? 0 : r->port;
	enum l4_protocol protocol = match == MATCH_ANY_OTHER_PORT ? PROTOCOL_ANY : r->protocol;
	__u64 high = 0, low = 0;

	if (family == FAMILY_IPV4)
		return fl_find_frontend4(match == MATCH_ANY_NODE_ADDRESS ? 0 : r->address.word[3],
					 port, protocol);
	if (match != MATCH_ANY_NODE_ADDRESS) {
		__builtin_memcpy(&high, &r->address.byte[0], sizeof(high));
		__builtin_memcpy(&low, &r->address.byte[8], sizeof(low));
	}
	return fl_find_frontend6(high, low, port, protocol);
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

static __always_inline bool has_node_ports(void)
{
	struct runtime_flags *flags = runtime_flags();

	return flags && flags->node_ports;
}

static __always_inline bool answers_node_ports(const struct request *r, enum family family)
{
	struct node_address *node;

	if (!has_node_ports())
		return false;
	node = node_address_of(&r->address, family);
	if (!node)
		return false;
	return node->scope == SCOPE_NODE || r->position == POSITION_HOST;
}

/* One load, so that block and members belong to the same set while the agent changes the rule. */
static __always_inline struct traffic_rule read_rule(const struct traffic_rule *from)
{
	union {
		__u64 word;
		struct traffic_rule rule;
	} read = {.word = *(const volatile __u64 *)from};

	return read.rule;
}

/* Inlined: every connection to a Service waits for it. Another key's frontend needs a second
 * look-up.
 */
static __always_inline __u32 probe_exact(const struct request *r, enum family family)
{
	__u32 id = family == FAMILY_IPV4 ? probe4(r->address.word[3], r->port, r->protocol)
					 : probe6(&r->address, r->port, r->protocol);
	const struct frontend *fe = id ? frontend_with(id) : NULL;

	if (!fe || has_key(fe, &r->address, r->port, r->protocol))
		return fe ? id : 0;
	return frontend_at(r, MATCH_EXACT, family);
}

/*
 * The range of an address: the /16 for IPv4. A hash of the /96 for IPv6, where ranges of Services
 * are seldom wider: a collision only costs an unnecessary look-up.
 */
static __always_inline __u32 range_of(const struct address *a, enum family family)
{
	if (family == FAMILY_IPV4)
		return bpf_ntohl(a->word[3]) >> 16;
	return (bpf_ntohl(a->word[0]) * 0x9e3779b1u + bpf_ntohl(a->word[1]) * 0x85ebca6bu +
		bpf_ntohl(a->word[2]) * 0xc2b2ae35u) >>
	       16;
}

/* Whether the bit of fl_not_service is 0. */
static __always_inline bool is_open_range(__u32 range)
{
	__u32 word = range / RANGES_PER_WORD;
	__u64 *none = bpf_map_lookup_elem(&fl_not_service, &word);

	return !none || !(*(const volatile __u64 *)none >> (range % RANGES_PER_WORD) & 1);
}

/* Whether a frontend may exist that has this address. */
static __always_inline bool may_be_frontend(const struct address *a, enum family family)
{
	__u32 range = range_of(a, family) % RANGES;

	return is_open_range(family == FAMILY_IPV6 ? RANGES + range : range);
}

static __always_inline bool may_be_node_port(__u16 port)
{
	return is_open_range(2 * RANGES + port);
}

static __always_inline __u32 find_frontend(const struct request *r, enum family family)
{
	bool has_frontends = may_be_frontend(&r->address, family);
	__u32 id = has_frontends ? probe_exact(r, family) : 0;

	if (!id && may_be_node_port(r->port) && answers_node_ports(r, family))
		id = frontend_at(r, MATCH_ANY_NODE_ADDRESS, family);
	if (!id && has_frontends)
		id = frontend_at(r, MATCH_ANY_OTHER_PORT, family);
	return id;
}

static __always_inline bool find_route(const struct request *r, enum family family,
				       struct route *route)
{
	__u32 id = find_frontend(r, family);
	const struct frontend *fe = id ? frontend_with(id) : NULL;

	if (!fe)
		return false;
	route->rule = read_rule(&fe->rule[r->position % POSITIONS]);
	route->service_id =
		route->rule.members ? service_of_run(route->rule.block) : fe->service_id;
	route->frontend_id = id;
	route->affinity_seconds = fe->affinity_seconds;
	return true;
}

#endif
