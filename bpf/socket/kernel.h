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

struct sock {
	unsigned int sk_kern_sock : 1;
} __attribute__((preserve_access_index));

/* False for UDP, of which no helper gives a typed socket. */
static __always_inline bool is_kernel_socket(struct bpf_sock *sk)
{
	struct sock *typed = (struct sock *)bpf_skc_to_tcp_sock(sk);

	return typed && BPF_CORE_READ_BITFIELD(typed, sk_kern_sock);
}

/* The MPTCP socket this one is a subflow of. Linux has the helper from 5.19. */
static __always_inline struct mptcp_sock *mptcp_of(struct bpf_sock *sk)
{
	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_skc_to_mptcp_sock))
		return NULL;
	return bpf_skc_to_mptcp_sock(sk);
}

#endif
