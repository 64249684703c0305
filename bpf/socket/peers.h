/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One record: what a socket was translated to, and the count of open connections that it implies.
 * Independent of the maps that hold records. The kernel holds the socket's lock whenever a hook
 * reads or writes one, and releases a socket once, after everything else: records need no lock.
 */
#ifndef FAIRLEAD_PEERS_H
#define FAIRLEAD_PEERS_H

#include "common/count.h"
#include "common/select.h"
#include "socket/types.h"

static __always_inline struct flow_record flow_of(const struct socket_peer *peer)
{
	struct flow_record flow = {
		.backend_id = peer->backend_id,
		.service_id = peer->service_id,
		.generation = peer->generation,
	};

	return flow;
}

/*
 * The id may belong to another backend by now: the generation tells, and that one is not counted
 * down. If that one is of the other family, the element read here is free.
 */
static __always_inline void count_end(const struct flow_record *flow, enum family family)
{
	struct backend b;

	if (!flow->backend_id || !read_backend(flow->backend_id, family, &b))
		return;
	if (b.state != BACKEND_FREE && b.generation == flow->generation &&
	    b.service_id == flow->service_id)
		count_closed(flow->backend_id);
}

static __always_inline void count_end_of(const struct socket_peer *peer)
{
	struct flow_record flow = flow_of(peer);

	count_end(&flow, peer->family);
}

static __always_inline struct socket_peer make_peer(const struct request *r, const struct choice *c)
{
	struct socket_peer peer = {
		.service_port = r->port,
		.backend_port = c->port,
		.backend_id = c->backend_id,
		.service_id = c->service_id,
		.generation = c->generation,
		.protocol = r->protocol,
		.family = is_mapped(&c->address) ? FAMILY_IPV4 : FAMILY_IPV6,
	};

	__builtin_memcpy(peer.service_address, r->address.byte, sizeof(peer.service_address));
	__builtin_memcpy(peer.backend_address, c->address.byte, sizeof(peer.backend_address));
	return peer;
}

static __always_inline bool is_backend(const struct socket_peer *peer, const struct address *from,
				       __u16 port)
{
	return peer->family && peer->backend_port == port &&
	       is_same_address(as_address(peer->backend_address), from);
}

static __always_inline void show_service(const struct socket_peer *peer, struct address *a,
					 __u16 *port)
{
	__builtin_memcpy(a->byte, peer->service_address, sizeof(a->byte));
	*port = peer->service_port;
}

/* The kernel had no memory for a record: the connection counts as over, so that none stays open. */
static __always_inline void count_unrecorded(const struct choice *c)
{
	count_reason(REASON_NO_SOCKET_STORAGE);
	count_closed(c->backend_id);
}

/* Replaces what the socket was connected to before. */
static __always_inline void set_peer(struct socket_peer *kept, const struct request *r,
				     const struct choice *c)
{
	struct flow_record before;
	__u8 family;

	if (!kept) {
		count_unrecorded(c);
		return;
	}
	before = flow_of(kept);
	family = kept->family;
	*kept = make_peer(r, c);
	count_end(&before, family);
}

#endif
