/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records of what connected sockets were translated to: fl_tcp_sock for TCP sockets of programs,
 * and fl_sock, the socket's own storage, for all others and for those that do not fit into the
 * table.
 */
#ifndef FAIRLEAD_CONNECTED_H
#define FAIRLEAD_CONNECTED_H

#include "socket/context.h"
#include "socket/kernel.h"
#include "socket/maps.h"
#include "socket/peers.h"

/*
 * An MPTCP subflow is a kernel socket: the program uses and closes the MPTCP socket above it, so
 * the record belongs to that one. Other kernel sockets (NFS, SMB) are closed without a hook: their
 * connections are counted as made, never as open.
 */
static __always_inline void record_kernel_socket(struct bpf_sock *sk, const struct request *r,
						 const struct choice *c)
{
	struct mptcp_sock *mptcp = mptcp_of(sk);
	struct socket_peer *kept;

	if (mptcp) {
		set_peer(bpf_sk_storage_get(&fl_sock, mptcp, 0, BPF_SK_STORAGE_GET_F_CREATE), r, c);
		return;
	}
	kept = bpf_sk_storage_get(&fl_sock, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (kept) {
		*kept = make_peer(r, c);
		kept->backend_id = 0;
	}
	count_closed(c->backend_id);
}

static __always_inline bool is_tcp(const struct bpf_sock *sk)
{
	return READ_WORD(sk->protocol) == IPPROTO_TCP;
}

/* The destination of an earlier connect() stays in a TCP socket, also after connect(AF_UNSPEC). If
 * there was no route to it, it does not: then only the release, or the next Service, ends the
 * record.
 */
static __always_inline bool was_connected(const struct bpf_sock *sk)
{
	return READ_WORD(sk->dst_ip4) | READ_WORD(sk->dst_ip6[0]) | READ_WORD(sk->dst_ip6[1]) |
	       READ_WORD(sk->dst_ip6[2]) | READ_WORD(sk->dst_ip6[3]);
}

static __always_inline void forget_tcp(__u64 cookie)
{
	struct socket_peer *kept = bpf_map_lookup_elem(&fl_tcp_sock, &cookie);

	if (!kept)
		return;
	count_end_of(kept);
	bpf_map_delete_elem(&fl_tcp_sock, &cookie);
}

static __always_inline void forget_stored(struct bpf_sock *sk)
{
	struct socket_peer *kept = bpf_sk_storage_get(&fl_sock, sk, 0, 0);

	if (!kept)
		return;
	count_end_of(kept);
	bpf_sk_storage_delete(&fl_sock, sk);
}

/* The program's MPTCP socket is being connected again, and this is its subflow. */
static __always_inline void forget_mptcp(struct bpf_sock *sk)
{
	struct mptcp_sock *mptcp = mptcp_of(sk);
	struct socket_peer *kept;

	if (!mptcp || !is_connecting(mptcp))
		return;
	kept = bpf_sk_storage_get(&fl_sock, mptcp, 0, 0);
	if (!kept)
		return;
	count_end_of(kept);
	bpf_sk_storage_delete(&fl_sock, mptcp);
}

/* The socket is now connected to something else, or not at all. */
static __always_inline void forget_connected(struct bpf_sock_addr *ctx, struct bpf_sock *sk)
{
	if (is_tcp(sk)) {
		forget_mptcp(sk);
		if (was_connected(sk))
			forget_tcp(bpf_get_socket_cookie(ctx));
	}
	forget_stored(sk);
}

/* False if the table is full. */
static __always_inline bool record_tcp(struct bpf_sock_addr *ctx, struct bpf_sock *sk,
				       const struct request *r, const struct choice *c)
{
	struct socket_peer peer = make_peer(r, c);
	__u64 cookie = bpf_get_socket_cookie(ctx);
	struct socket_peer *kept;

	if (was_connected(sk))
		forget_stored(sk); /* the table may have been full then */
	if (bpf_map_update_elem(&fl_tcp_sock, &cookie, &peer, BPF_NOEXIST) == 0)
		return true;
	kept = bpf_map_lookup_elem(&fl_tcp_sock, &cookie);
	if (!kept)
		return false;
	set_peer(kept, r, c);
	return true;
}

static __always_inline void record_connected(struct bpf_sock_addr *ctx, struct bpf_sock *sk,
					     const struct request *r, const struct choice *c)
{
	count_opened(c->backend_id);
	if (is_kernel_socket(sk))
		record_kernel_socket(sk, r, c);
	else if (!is_tcp(sk) || !record_tcp(ctx, sk, r, c))
		set_peer(bpf_sk_storage_get(&fl_sock, sk, 0, BPF_SK_STORAGE_GET_F_CREATE), r, c);
}

static __always_inline struct socket_peer *find_tcp(struct bpf_sock_addr *ctx,
						    const struct bpf_sock *sk)
{
	__u64 cookie;

	if (!is_tcp(sk))
		return NULL;
	cookie = bpf_get_socket_cookie(ctx);
	return bpf_map_lookup_elem(&fl_tcp_sock, &cookie);
}

/* Service address of the connected backend, if `from` is that backend. */
static __always_inline bool find_connected_service(struct bpf_sock_addr *ctx, struct bpf_sock *sk,
						   struct address *from, __u16 *port)
{
	struct socket_peer *kept = find_tcp(ctx, sk);

	if (!kept)
		kept = bpf_sk_storage_get(&fl_sock, sk, 0, 0);
	if (!kept || !is_backend(kept, from, *port))
		return false;
	show_service(kept, from, port);
	return true;
}

/* The kernel frees the socket's own storage with it. */
static __always_inline void release_connected(struct bpf_sock *sk)
{
	struct socket_peer *kept = bpf_sk_storage_get(&fl_sock, sk, 0, 0);

	if (kept)
		count_end_of(kept);
	if (is_tcp(sk))
		forget_tcp(bpf_get_socket_cookie(sk));
}

#endif
