/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What unconnected UDP sockets were translated to, for any number of Services per socket: the first
 * few flows in the socket's storage (fl_udp_sock), further ones in a table that all sockets share
 * (fl_udp_flow). Records need no lock, as in peers.h.
 */
#ifndef FAIRLEAD_UDP_H
#define FAIRLEAD_UDP_H

#include "packet/uplink/sent_to.h"
#include "socket/maps.h"
#include "socket/peers.h"

static __always_inline bool is_newer(__u32 sequence, __u32 than)
{
	return (__s32)(sequence - than) > 0;
}

static __always_inline bool is_to_service(const struct socket_peer *peer, const struct request *r)
{
	return peer->family && peer->service_port == r->port &&
	       is_same_address(as_address(peer->service_address), &r->address);
}

/* --- flows beyond the first ------------------------------------------------------------------- */

static __always_inline void set_flow_key(struct udp_flow_key *key, enum udp_direction direction,
					 const struct address *to, __u16 port)
{
	key->direction = direction;
	key->port = port;
	__builtin_memcpy(key->address, to->byte, sizeof(key->address));
}

/*
 * Copies the flow of key->socket: LRU eviction can give the element to another flow meanwhile. The
 * socket is written first and compared last, so that no copy mixes two flows.
 */
static __always_inline bool read_flow(const struct udp_flow_key *key, struct udp_flow *flow)
{
	struct udp_flow *found = bpf_map_lookup_elem(&fl_udp_flow, key);

	if (!found)
		return false;
	*flow = *found;
	barrier();
	return *(volatile __u64 *)&found->socket == key->socket;
}

/* Under both addresses: for the next datagram to the Service, and for replies. */
static __always_inline void write_flow(struct udp_flow_key *key, const struct udp_flow *flow)
{
	const struct socket_peer *peer = &flow->peer;

	set_flow_key(key, UDP_TO_BACKEND, as_address(peer->service_address), peer->service_port);
	bpf_map_update_elem(&fl_udp_flow, key, flow, BPF_ANY);
	set_flow_key(key, UDP_TO_SERVICE, as_address(peer->backend_address), peer->backend_port);
	bpf_map_update_elem(&fl_udp_flow, key, flow, BPF_ANY);
}

/* If several Services share a backend, replies show the one that was sent to last. */
static __always_inline void use_flow(struct udp_flow_key *key, struct udp_flow *flow,
				     __u32 sequence)
{
	const struct socket_peer *peer = &flow->peer;
	struct udp_flow *reverse;

	set_flow_key(key, UDP_TO_SERVICE, as_address(peer->backend_address), peer->backend_port);
	reverse = bpf_map_lookup_elem(&fl_udp_flow, key);
	if (reverse && reverse->socket == key->socket &&
	    reverse->peer.service_port == peer->service_port &&
	    is_same_address(as_address(reverse->peer.service_address),
			    as_address(peer->service_address))) {
		reverse->sequence = sequence;
		return;
	}
	flow->sequence = sequence;
	write_flow(key, flow);
}

static __always_inline void find_further_flow(struct bpf_sock_addr *ctx, struct request *r,
					      __u32 sequence)
{
	struct udp_flow_key key = {.socket = bpf_get_socket_cookie(ctx)};
	struct udp_flow flow;

	set_flow_key(&key, UDP_TO_BACKEND, &r->address, r->port);
	if (!read_flow(&key, &flow))
		return;
	r->flow = flow_of(&flow.peer);
	use_flow(&key, &flow, sequence);
}

/* Releasing a socket does not look for its further flows: they are never counted as open. */
static __always_inline void record_further_flow(struct bpf_sock_addr *ctx,
						const struct socket_peer *peer, __u32 sequence)
{
	struct udp_flow_key key = {.socket = bpf_get_socket_cookie(ctx)};
	struct udp_flow flow = {.socket = key.socket, .peer = *peer, .sequence = sequence};

	write_flow(&key, &flow);
	count_closed(peer->backend_id);
}

/* --- devices that sockets insist on ---
 */

/*
 * Before the socket of a process of the node sends to the backend: see packet/uplink/sent_to.h.
 * Without a branch at the calls, whose number the verifier would double.
 */
__noinline int fl_note_sent(__u64 hash, __u32 position, __u32 protocol)
{
	__u64 *entry;

	if (position != POSITION_HOST || protocol != PROTOCOL_UDP)
		return 0;
	entry = sent_to(hash);
	if (entry && !has_backend(*entry, hash))
		set_sent_to(entry, sent_to_of(hash, 0, 0));
	return 0;
}

static __always_inline void note_sent(const struct request *r, const struct choice *c,
				      enum family family)
{
	fl_note_sent(hash_backend(&c->address, family), r->position, r->protocol);
}

/* --- every flow ------------------------------------------------------------------------------- */

/* Fills r->flow with the backend that the socket used last for this Service address. */
static __always_inline void find_flow(struct bpf_sock_addr *ctx, struct bpf_sock *sk,
				      struct request *r)
{
	struct udp_peers *peers = bpf_sk_storage_get(&fl_udp_sock, sk, 0, 0);

	if (!peers)
		return;
	peers->sequence += 1;
#pragma clang loop unroll(full)
	for (int i = 0; i < UDP_PEERS; i++) {
		if (is_to_service(&peers->peer[i], r)) {
			r->flow = flow_of(&peers->peer[i]);
			peers->used_at[i] = peers->sequence;
			return;
		}
	}
	if (peers->has_further)
		find_further_flow(ctx, r, peers->sequence);
}

/* Records a new flow, or a flow's new backend in the record of the old one. */
static __always_inline void record_udp(struct bpf_sock_addr *ctx, struct bpf_sock *sk,
				       const struct request *r, const struct choice *c)
{
	struct socket_peer peer = make_peer(r, c);
	struct udp_peers *peers;

	count_opened(c->backend_id);
	peers = bpf_sk_storage_get(&fl_udp_sock, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!peers) {
		count_unrecorded(c);
		return;
	}
	peers->sequence += 1;
#pragma clang loop unroll(full)
	for (int i = 0; i < UDP_PEERS; i++) {
		struct socket_peer *kept = &peers->peer[i];

		if (!kept->family || is_to_service(kept, r)) {
			struct socket_peer before = *kept;

			*kept = peer;
			peers->used_at[i] = peers->sequence;
			count_end_of(&before);
			return;
		}
	}
	peers->has_further = true;
	record_further_flow(ctx, &peer, peers->sequence);
}

/* Service address that `from` answers for; of several, the one that was sent to last. */
static __always_inline bool find_udp_service(struct bpf_sock_addr *ctx, struct bpf_sock *sk,
					     struct address *from, __u16 *port)
{
	struct udp_peers *peers = bpf_sk_storage_get(&fl_udp_sock, sk, 0, 0);
	struct socket_peer *found = NULL;
	struct udp_flow further;
	__u32 used_at = 0;

	if (!peers)
		return false;
#pragma clang loop unroll(full)
	for (int i = 0; i < UDP_PEERS; i++) {
		struct socket_peer *peer = &peers->peer[i];

		if (is_backend(peer, from, *port) &&
		    (!found || is_newer(peers->used_at[i], used_at))) {
			found = peer;
			used_at = peers->used_at[i];
		}
	}
	if (peers->has_further) {
		struct udp_flow_key key = {.socket = bpf_get_socket_cookie(ctx)};

		set_flow_key(&key, UDP_TO_SERVICE, from, *port);
		if (read_flow(&key, &further) && (!found || is_newer(further.sequence, used_at))) {
			show_service(&further.peer, from, port);
			return true;
		}
	}
	if (found)
		show_service(found, from, port);
	return found != NULL;
}

static __always_inline void release_udp(struct bpf_sock *sk)
{
	struct udp_peers *peers = bpf_sk_storage_get(&fl_udp_sock, sk, 0, 0);

	if (!peers)
		return;
#pragma clang loop unroll(full)
	for (int i = 0; i < UDP_PEERS; i++)
		count_end_of(&peers->peer[i]);
}

#endif
