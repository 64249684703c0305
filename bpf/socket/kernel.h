/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the context does not say of a TCP socket: whose it is. Reads the kernel's own structs, at
 * the offsets that libbpf finds in the running kernel's BTF; what a kernel lacks is left out of the
 * programs before its verifier sees them.
 */
#ifndef FAIRLEAD_KERNEL_H
#define FAIRLEAD_KERNEL_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

struct sock_common {
	unsigned char skc_state;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
	unsigned int sk_kern_sock : 1;
} __attribute__((preserve_access_index));

struct inet_sock {
	struct sock sk;
} __attribute__((preserve_access_index));

struct inet_connection_sock {
	struct inet_sock icsk_inet;
} __attribute__((preserve_access_index));

struct mptcp_sock {
	struct inet_connection_sock sk;
} __attribute__((preserve_access_index));

/* False for UDP, of which no helper gives a typed socket. */
static __always_inline bool is_kernel_socket(struct bpf_sock *sk)
{
	struct sock *typed = (struct sock *)bpf_skc_to_tcp_sock(sk);

	return typed && BPF_CORE_READ_BITFIELD(typed, sk_kern_sock);
}

/*
 * The MPTCP socket this one is a subflow of. Linux has the helper from 5.19; built without MPTCP it
 * has the helper's number but refuses calls of it.
 */
static __always_inline struct mptcp_sock *mptcp_of(struct bpf_sock *sk)
{
	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_skc_to_mptcp_sock))
		return NULL;
	if (!bpf_core_type_exists(struct mptcp_sock))
		return NULL;
	return bpf_skc_to_mptcp_sock(sk);
}

/* Whether this is its first subflow: further ones join a connection that is established. */
static __always_inline bool is_connecting(const struct mptcp_sock *mptcp)
{
	return BPF_CORE_READ(mptcp, sk.icsk_inet.sk.__sk_common.skc_state) != BPF_TCP_ESTABLISHED;
}

#endif
