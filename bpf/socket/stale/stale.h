/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stale sockets: those that are connected to a backend that is gone. What the iterators tell the
 * agent about one, when one is stale, and the fields of the kernel's structs that this takes, read
 * at the offsets of the running kernel's BTF.
 */
#ifndef FAIRLEAD_STALE_H
#define FAIRLEAD_STALE_H

#include <linux/in.h>
#include <bpf/bpf_core_read.h>

#include "common/backend.h"
#include "socket/maps.h"
#include "socket/types.h"

/* AF_INET: <sys/socket.h> cannot be included here. */
#define SOCKET_FAMILY_IPV4 2

/* --- the kernel's own ------------------------------------------------------------------------- */

/* Read whole, so without relocations of its own. */
struct ipv6_bytes {
	__u8 byte[16];
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	__s64 counter;
} atomic64_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	int skc_bound_dev_if;
	possible_net_t skc_net;
	struct ipv6_bytes skc_v6_daddr;
	struct ipv6_bytes skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
};

struct inet_sock {
	struct sock sk;
};

struct udp_sock {
	struct inet_sock inet;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__udp {
	struct bpf_iter_meta *meta;
	struct udp_sock *udp_sk;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

#pragma clang attribute pop

/* --- what the agent gets ---------------------------------------------------------------------- */

/* One stale socket. Read by src/engines/bpf/stale-sockets/socket.ts. */
struct stale_socket {
	__u64 cookie; /* 0: the kernel has not made one */
	__u32 netns;  /* inode number of its network namespace */
	__u32 device; /* ifindex that it is bound to, or 0 */
	__u8 local_address[16];
	__u16 local_port;
	enum l4_protocol protocol;
	__u8 family; /* 4 or 6: of the socket; an IPv6 one may have v4-mapped addresses */
	__u32 pad;
	struct socket_peer peer; /* the record that is stale */
};

_Static_assert(sizeof(struct stale_socket) == 88, "stale_socket");

static __always_inline bool is_stale(const struct socket_peer *peer)
{
	return peer->backend_id && peer->family &&
	       is_gone(peer->backend_id, peer->service_id, peer->generation, peer->family);
}

/* Of a TCP socket; NULL: it has none, or has it in its storage. A socket without a cookie has none.
 */
static __always_inline struct socket_peer *tcp_record(const struct sock_common *sk)
{
	__u64 cookie = sk->skc_cookie.counter;

	return cookie ? bpf_map_lookup_elem(&fl_tcp_sock, &cookie) : NULL;
}

static __always_inline bool is_ipv4(const struct sock_common *sk)
{
	return sk->skc_family == SOCKET_FAMILY_IPV4;
}

static __always_inline void read_peer_address(struct sock_common *sk, struct address *to)
{
	if (is_ipv4(sk))
		set_ipv4(to, sk->skc_daddr);
	else
		BPF_CORE_READ_INTO(&to->byte, sk, skc_v6_daddr);
}

static __always_inline void read_local_address(struct sock_common *sk, struct address *to)
{
	if (is_ipv4(sk))
		set_ipv4(to, sk->skc_rcv_saddr);
	else
		BPF_CORE_READ_INTO(&to->byte, sk, skc_v6_rcv_saddr);
}

/*
 * The record is of the peer that the socket has now. After a connect() that failed, or an undone
 * one (AF_UNSPEC), it is not; a destroyed UDP socket has no peer any more.
 */
static __always_inline bool is_connected_to(struct sock_common *sk, const struct socket_peer *peer)
{
	__u8 state = sk->skc_state;
	struct address to;

	if (peer->protocol == PROTOCOL_UDP && state != BPF_TCP_ESTABLISHED)
		return false;
	if (state == BPF_TCP_CLOSE || state == BPF_TCP_LISTEN || state == BPF_TCP_TIME_WAIT)
		return false;
	read_peer_address(sk, &to);
	return bpf_ntohs(sk->skc_dport) == peer->backend_port &&
	       is_same_address(as_address(peer->backend_address), &to);
}

/* Tells the reader of the iterator about a socket whose record is stale. */
static __always_inline void write_stale(struct seq_file *seq, struct sock_common *sk,
					const struct socket_peer *peer, __u64 cookie)
{
	struct stale_socket found = {.cookie = cookie};
	struct address local;

	read_local_address(sk, &local);
	__builtin_memcpy(found.local_address, local.byte, sizeof(found.local_address));
	found.netns = sk->skc_net.net->ns.inum;
	found.device = sk->skc_bound_dev_if;
	found.local_port = sk->skc_num;
	found.protocol = peer->protocol;
	found.family = is_ipv4(sk) ? FAMILY_IPV4 : FAMILY_IPV6;
	found.peer = *peer;
	bpf_seq_write(seq, &found, sizeof(found));
}

#endif
