/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Datagrams of a pod's socket that was connected to a Service and whose backend is gone. The agent
 * connects such sockets again; those that it may not, it names in fl_refused_sock, and here their
 * datagrams become requests to the Service: for this connection alone the former backend's address
 * is a frontend, and answers come from it. Where the Service has no backend, they are refused.
 *
 * The packet of a pod still belongs to its socket when it comes in by the device of the pod, so
 * that nothing is taken for such a datagram that goes to the same address by itself: every datagram
 * of such a connection is asked.
 */
#ifndef FAIRLEAD_ANSWER_STALE_H
#define FAIRLEAD_ANSWER_STALE_H

#include "common/stored.h"
#include "packet/packet.h"

/* Value of fl_refused_sock: what becomes of the datagrams. 0: as STALE_REFUSED. */
enum stale_datagrams {
	STALE_REFUSED = 1,
	STALE_SERVED = 2, /* they are requests to its Service */
};

static __always_inline bool may_be_of_stale(const struct packet *p)
{
	struct runtime_flags *flags;

	if (p->wire.protocol != PROTOCOL_UDP)
		return false;
	flags = runtime_flags();
	return flags && flags->refused_sockets;
}

/* The agent may have named it before the program connected it again. */
static __always_inline bool is_of_former(const struct socket_peer *peer, const struct packet *p)
{
	return peer->backend_id && peer->family && peer->protocol == PROTOCOL_UDP &&
	       peer->backend_port == p->wire.destination_port &&
	       is_same_address(as_address(peer->backend_address), &p->wire.destination) &&
	       is_gone(peer->backend_id, peer->service_id, peer->generation, peer->family);
}

/*
 * What is to become of the packet if it is a datagram of a stale socket that the agent has named,
 * an enum stale_datagrams; p->request is then one to its Service. 0: it is none.
 */
__noinline int fl_stale_datagrams(struct __sk_buff *skb)
{
	struct packet *p = this_packet();
	struct bpf_sock *sk = skb->sk;
	struct socket_peer *peer;
	__u32 *datagrams;
	__u64 cookie;

	if (!p || !sk)
		return 0;
	cookie = bpf_get_socket_cookie(skb);
	datagrams = bpf_map_lookup_elem(&fl_refused_sock, &cookie);
	if (!datagrams)
		return 0;
	peer = bpf_sk_storage_get(&fl_sock, sk, 0, 0);
	if (!peer || !is_of_former(peer, p))
		return 0;
	p->request.address = *as_address(peer->service_address);
	p->request.port = peer->service_port;
	return *datagrams == STALE_SERVED ? STALE_SERVED : STALE_REFUSED;
}

#endif
