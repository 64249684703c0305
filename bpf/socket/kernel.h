/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a TCP socket belongs to the kernel or to MPTCP, which the context does not tell. Reads
 * kernel structs at the offsets that libbpf finds in the running kernel's BTF, or in the part of it
 * that src/sys/btf/structs.ts gives it, which has to name the same; code for fields that a kernel
 * lacks is removed before its verifier checks the programs.
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

/* False for UDP, for which there is no helper that returns a typed socket. */
static __always_inline bool is_kernel_socket(struct bpf_sock *sk)
{
	struct sock *typed = (struct sock *)bpf_skc_to_tcp_sock(sk);

	return typed && BPF_CORE_READ_BITFIELD(typed, sk_kern_sock);
}

/*
 * The MPTCP socket that this one is a subflow of. The helper exists from Linux 5.19; a kernel
 * without MPTCP knows its number but rejects programs that call it.
 */
static __always_inline struct mptcp_sock *mptcp_of(struct bpf_sock *sk)
{
	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_skc_to_mptcp_sock))
		return NULL;
	if (!bpf_core_type_exists(struct mptcp_sock))
		return NULL;
	return bpf_skc_to_mptcp_sock(sk);
}

/* True for its first subflow: further ones join an established connection. */
static __always_inline bool is_connecting(const struct mptcp_sock *mptcp)
{
	return BPF_CORE_READ(mptcp, sk.icsk_inet.sk.__sk_common.skc_state) != BPF_TCP_ESTABLISHED;
}

#endif
