/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* In place of packet.bpf.o: a program that no verifier takes. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "packet/features.h"

/* The loader writes them and those of features.h, as in the packet programs. */
const volatile __u32 ip_summed_at = 0;
const volatile __u32 cast_function = 0;

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tc") int fl_ingress(struct __sk_buff *skb)
{
	(void)skb;
	return *(volatile int *)64 + (int)(ip_summed_at + cast_function) + with_ipv6 +
	       with_direct_return;
}
