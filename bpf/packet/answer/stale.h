/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Datagrams of a pod's socket that was connected to a Service and whose backend is gone. The agent
 * destroys such sockets; those that it may not, it names in fl_refused_sock, and here their
 * datagrams are refused: the program is told by its next call, and connects again.
 *
 * The packet of a pod still belongs to its socket when it comes in by the device of the pod, so
 * that nothing is taken for such a datagram that goes to the same address by itself.
 */
#ifndef FAIRLEAD_ANSWER_STALE_H
#define FAIRLEAD_ANSWER_STALE_H

#include "common/stored.h"
#include "packet/answer/refuse.h"

static __always_inline bool refuses_sockets(void)
{
	struct runtime_flags *flags = runtime_flags();

	return flags && flags->refused_sockets;
}

/* The agent may have named it before the program connected it again. */
static __always_inline bool is_of_backend(const struct socket_peer *peer, const struct packet *p)
{
	return peer->backend_id && peer->family && peer->protocol == PROTOCOL_UDP &&
	       peer->backend_port == p->wire.destination_port &&
	       is_same_address(as_address(peer->backend_address), &p->wire.destination) &&
	       is_gone(peer->backend_id, peer->service_id, peer->generation, peer->family);
}

static __always_inline bool is_of_refused(struct __sk_buff *skb, const struct packet *p)
{
	struct bpf_sock *sk = skb->sk;
	struct socket_peer *peer;
	__u64 cookie;

	if (!sk)
		return false;
	cookie = bpf_get_socket_cookie(skb);
	if (!bpf_map_lookup_elem(&fl_refused_sock, &cookie))
		return false;
	peer = bpf_sk_storage_get(&fl_sock, sk, 0, 0);
	return peer && is_of_backend(peer, p);
}

/* A datagram that is for no frontend. */
static __always_inline int on_datagram(struct __sk_buff *skb, enum family family)
{
	struct packet *p = this_packet();

	if (!p || !is_of_refused(skb, p))
		return LEAVE;
	count_reason(REASON_REFUSED_STALE_SOCKET);
	return refuse(skb, family);
}

__noinline int fl_datagram4(struct __sk_buff *skb)
{
	return on_datagram(skb, FAMILY_IPV4);
}

__noinline int fl_datagram6(struct __sk_buff *skb)
{
	return on_datagram(skb, FAMILY_IPV6);
}

#endif
