/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What `fairlead probe` tries one by one: each program needs one thing of the kernel. */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Element 0 counts, whatever a program has to count. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} probe_count SEC(".maps");

static void count(void)
{
	__u32 zero = 0;
	__u64 *counter = bpf_map_lookup_elem(&probe_count, &zero);

	if (counter)
		__sync_fetch_and_add(counter, 1);
}

SEC("cgroup/connect4") int probe_connect(struct bpf_sock_addr *ctx)
{
	(void)ctx;
	count();
	return 1;
}

SEC("cgroup/connect4") int probe_refuse(struct bpf_sock_addr *ctx)
{
	(void)ctx;
	bpf_set_retval(-ECONNREFUSED);
	return 0;
}

SEC("tc") int probe_packet(struct __sk_buff *skb)
{
	(void)skb;
	count();
	return -1; /* TC_ACT_UNSPEC, which is TCX_NEXT: the packet goes on. */
}

static long add_round(__u32 round, void *rounds)
{
	(void)round;
	++*(__u64 *)rounds;
	return 0;
}

SEC("tc") int probe_loop(struct __sk_buff *skb)
{
	__u64 rounds = 0;

	(void)skb;
	bpf_loop(3, add_round, &rounds, 0);
	return (int)rounds;
}

static long add_element(void *map, const void *key, void *value, void *elements)
{
	(void)map;
	(void)key;
	(void)value;
	++*(__u64 *)elements;
	return 0;
}

SEC("syscall") int probe_each(void *ctx)
{
	__u64 elements = 0;

	(void)ctx;
	bpf_for_each_map_elem(&probe_count, add_element, &elements, 0);
	return (int)elements;
}
