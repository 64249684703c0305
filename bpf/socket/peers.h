/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What sockets were translated to: one record on a connected socket, the latest few on an
 * unconnected UDP socket. Owns fl_sock, fl_udp_sock and the open/closed counters of backends that
 * follow from them.
 */
#ifndef FAIRLEAD_PEERS_H
#define FAIRLEAD_PEERS_H

#include "common/count.h"
#include "common/select.h"

/* Which connection to which backend a record stands for. backend_id 0: none. */
struct tenure {
	struct flow_record flow;
	enum family family;
};

static __always_inline struct tenure tenure_of(const struct socket_peer *peer)
{
	struct tenure t = {
		.flow = {.backend_id = peer->backend_id,
			 .service_id = peer->service_id,
			 .generation = peer->generation},
		.family = peer->family,
	};

	if (!peer->family)
		t.flow.backend_id = 0;
	return t;
}

/* The id may have been given to another backend since: that one is not charged. */
static __always_inline void end_tenure(const struct tenure *t)
{
	struct backend b;

	if (!t->flow.backend_id)
		return; /* element 0 of the maps is all zero, and would match */
	if (!read_backend(t->flow.backend_id, t->family, &b))
		return;
	if (b.generation == t->flow.generation && b.service_id == t->flow.service_id)
		count_closed(t->flow.backend_id);
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

/* The kernel had no memory for a record: the connection counts as over, so that none stays open. */
static __always_inline void count_unrecorded(const struct choice *c)
{
	count_reason(REASON_NO_SOCKET_STORAGE);
	count_closed(c->backend_id);
}

/* --- connected sockets --------------------------------------------------------------------------
 */

static __always_inline void remember_connected(struct bpf_sock *sk, const struct request *r,
					       const struct choice *c)
{
	struct socket_peer *kept;
	struct tenure before;

	count_opened(c->backend_id);
	kept = bpf_sk_storage_get(&fl_sock, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!kept) {
		count_unrecorded(c);
		return;
	}
	before = tenure_of(kept);
	*kept = make_peer(r, c);
	end_tenure(&before);
}

/* The socket is connected to something else, or to nothing. */
static __always_inline void forget_connected(struct bpf_sock *sk)
{
	struct socket_peer *kept = bpf_sk_storage_get(&fl_sock, sk, 0, 0);
	struct tenure before;

	if (!kept)
		return;
	before = tenure_of(kept);
	bpf_sk_storage_delete(&fl_sock, sk);
	end_tenure(&before);
}

/* Service address of the connected backend, if `from` is that backend. */
static __always_inline bool find_connected_service(struct bpf_sock *sk, struct address *from,
						   __u16 *port)
{
	struct socket_peer *kept = bpf_sk_storage_get(&fl_sock, sk, 0, 0);

	if (!kept || !kept->family || kept->backend_port != *port ||
	    !is_same_address(as_address(kept->backend_address), from))
		return false;
	__builtin_memcpy(from->byte, kept->service_address, sizeof(from->byte));
	*port = kept->service_port;
	return true;
}

/* --- unconnected UDP sockets ---------------------------------------------------------------------
 * Loops are unrolled for offsets that are constant: any other is slow to verify without
 * CAP_PERFMON.
 */

static __always_inline bool is_to_service(const struct socket_peer *peer, const struct request *r)
{
	return peer->family && peer->service_port == r->port &&
	       is_same_address(as_address(peer->service_address), &r->address);
}

/* Makes room for a record at the front; the one in this place goes. With the lock held. */
static __always_inline void move_back(struct udp_peers *peers, int place)
{
	_Static_assert(UDP_PEERS == 4, "one line per record but the first");
	if (place > 2)
		peers->peer[3] = peers->peer[2];
	if (place > 1)
		peers->peer[2] = peers->peer[1];
	if (place > 0)
		peers->peer[1] = peers->peer[0];
}

/* Fills r->flow with what the socket used last for this Service address, and makes it most recent.
 */
static __always_inline void find_flow(struct bpf_sock *sk, struct request *r)
{
	struct udp_peers *peers = bpf_sk_storage_get(&fl_udp_sock, sk, 0, 0);

	if (!peers)
		return;
	bpf_spin_lock(&peers->lock);
#pragma clang loop unroll(full)
	for (int i = 0; i < UDP_PEERS; i++) {
		struct socket_peer peer = peers->peer[i];

		if (is_to_service(&peer, r)) {
			r->flow = tenure_of(&peer).flow;
			move_back(peers, i);
			peers->peer[0] = peer;
			break;
		}
	}
	bpf_spin_unlock(&peers->lock);
}

/* Takes the place of the record for the same Service address, else of the one unused longest. */
static __always_inline void remember_udp(struct bpf_sock *sk, const struct request *r,
					 const struct choice *c)
{
	struct socket_peer peer = make_peer(r, c);
	struct udp_peers *peers;
	struct tenure before;

	count_opened(c->backend_id);
	peers = bpf_sk_storage_get(&fl_udp_sock, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!peers) {
		count_unrecorded(c);
		return;
	}
	bpf_spin_lock(&peers->lock);
	/* find_flow() left the same address at the front, if there was one */
	if (is_to_service(&peers->peer[0], r)) {
		before = tenure_of(&peers->peer[0]);
	} else {
		before = tenure_of(&peers->peer[UDP_PEERS - 1]);
		move_back(peers, UDP_PEERS - 1);
	}
	peers->peer[0] = peer;
	bpf_spin_unlock(&peers->lock);
	end_tenure(&before);
}

/* Service address that `from` answers for; of several, the one written to last. */
static __always_inline bool find_udp_service(struct bpf_sock *sk, struct address *from, __u16 *port)
{
	struct udp_peers *peers = bpf_sk_storage_get(&fl_udp_sock, sk, 0, 0);
	bool is_found = false;

	if (!peers)
		return false;
	bpf_spin_lock(&peers->lock);
#pragma clang loop unroll(full)
	for (int i = 0; i < UDP_PEERS; i++) {
		struct socket_peer *peer = &peers->peer[i];

		if (peer->family && peer->backend_port == *port &&
		    is_same_address(as_address(peer->backend_address), from)) {
			__builtin_memcpy(from->byte, peer->service_address, sizeof(from->byte));
			*port = peer->service_port;
			is_found = true;
			break;
		}
	}
	bpf_spin_unlock(&peers->lock);
	return is_found;
}

#endif
