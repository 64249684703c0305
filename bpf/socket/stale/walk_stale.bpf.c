/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Iterators that find the stale sockets of the reader's network namespace by its sockets, not by
 * their records: for kernels whose policy lets nobody load the iterators over maps of
 * find_stale.bpf.c, which search all namespaces at once (ADR 20).
 */
#include "socket/maps.h"
#include "socket/stale/stale.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline bool is_to_destroy(struct sock_common *sk, const struct socket_peer *peer,
					  enum l4_protocol protocol)
{
	return peer && peer->protocol == protocol && is_stale(peer) && is_connected_to(sk, peer);
}

SEC("iter/udp") int fl_walk_udp(struct bpf_iter__udp *ctx)
{
	struct udp_sock *sk = ctx->udp_sk;
	struct sock_common *common = (struct sock_common *)sk;
	struct socket_peer *peer;

	if (!sk)
		return 0;
	peer = bpf_sk_storage_get(&fl_sock, sk, 0, 0);
	if (is_to_destroy(common, peer, PROTOCOL_UDP))
		write_stale(ctx->meta->seq, common, peer, bpf_get_socket_cookie(sk));
	return 0;
}

SEC("iter/tcp") int fl_walk_tcp(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	struct socket_peer *peer;

	if (!sk)
		return 0;
	peer = tcp_record(sk);
	if (!peer)
		peer = bpf_sk_storage_get(&fl_sock, sk, 0, 0);
	if (is_to_destroy(sk, peer, PROTOCOL_TCP))
		write_stale(ctx->meta->seq, sk, peer, bpf_get_socket_cookie(sk));
	return 0;
}
