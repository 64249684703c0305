/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Iterators that find stale sockets. fl_find_stored and fl_find_tcp_records walk the records, of
 * all network namespaces; fl_find_tcp walks the TCP sockets of one, because the records of
 * fl_tcp_sock do not tell where their socket is. They write only to the agent that reads them.
 * Where the kernel refuses iterators over maps, those of walk_stale.bpf.c are used.
 */
#include "socket/maps.h"
#include "socket/stale/stale.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* 1: bpf_get_socket_cookie() can be called (iterators have it from 5.12). */
const volatile __u8 can_make_cookie = 0;

/* Keeps the struct in the object's BTF, with which a test compares the agent's codec. */
const struct stale_socket *const volatile stale_socket_layout = NULL;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct sock *sk;
	struct socket_peer *value;
};

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	__u64 *key;
	struct socket_peer *value;
};

#pragma clang attribute pop

/* Records of sockets in their own storage: connected UDP, and TCP that fl_tcp_sock had no room for.
 */
SEC("iter/bpf_sk_storage_map") int fl_find_stored(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct socket_peer *value = ctx->value;
	struct sock *sk = ctx->sk;
	struct socket_peer peer;
	__u64 cookie;

	if (!sk || !value)
		return 0;
	peer = *value;
	if (sk->sk_protocol != peer.protocol || !is_stale(&peer) ||
	    !is_connected_to(&sk->__sk_common, &peer))
		return 0;
	cookie = can_make_cookie ? bpf_get_socket_cookie(sk)
				 : (__u64)sk->__sk_common.skc_cookie.counter;
	write_stale(ctx->meta->seq, &sk->__sk_common, &peer, cookie);
	return 0;
}

/* The cookie of each stale socket of fl_tcp_sock. */
SEC("iter/bpf_map_elem") int fl_find_tcp_records(struct bpf_iter__bpf_map_elem *ctx)
{
	struct socket_peer *value = ctx->value;
	__u64 *key = ctx->key;
	struct socket_peer peer;
	__u64 cookie;

	if (!key || !value)
		return 0;
	peer = *value;
	cookie = *key;
	if (is_stale(&peer))
		bpf_seq_write(ctx->meta->seq, &cookie, sizeof(cookie));
	return 0;
}

/* The stale sockets of fl_tcp_sock in the network namespace of the reader. */
SEC("iter/tcp") int fl_find_tcp(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	struct socket_peer *peer;

	if (!sk)
		return 0;
	peer = tcp_record(sk);
	if (!peer || !is_stale(peer) || !is_connected_to(sk, peer))
		return 0;
	write_stale(ctx->meta->seq, sk, peer, sk->skc_cookie.counter);
	return 0;
}
