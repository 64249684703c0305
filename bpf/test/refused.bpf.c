/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* In place of packet.bpf.o: a program that no verifier takes. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tc") int fl_ingress(struct __sk_buff *skb)
{
	(void)skb;
	return *(volatile int *)64;
}
