/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* In place of direct.bpf.o: what that returns on a kernel that makes no room for headers. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define STEP_ROOM (1 << 16)
#define ENOTSUPP  524

SEC("tc") int probe_wrap(struct __sk_buff *skb)
{
	(void)skb;
	return STEP_ROOM | ENOTSUPP;
}

SEC("tc") int probe_unwrap(struct __sk_buff *skb)
{
	(void)skb;
	return 0;
}
