/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Programs with the names of the packet layer's, which only count packets, and one of somebody
 * else. Not shipped.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum { INGRESS, EGRESS, INGRESS_L3, EGRESS_L3 };

/* Key: ifindex * 4 + program. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

static __always_inline int count(struct __sk_buff *skb, __u32 program)
{
	__u32 key = skb->ifindex * 4 + program;
	__u64 one = 1, *packets = bpf_map_lookup_elem(&seen, &key);

	if (packets)
		__sync_fetch_and_add(packets, 1);
	else
		bpf_map_update_elem(&seen, &key, &one, BPF_ANY);
	return TC_ACT_UNSPEC;
}

SEC("tc") int fl_ingress(struct __sk_buff *skb)
{
	return count(skb, INGRESS);
}

SEC("tc") int fl_egress(struct __sk_buff *skb)
{
	return count(skb, EGRESS);
}

SEC("tc") int fl_ingress_l3(struct __sk_buff *skb)
{
	return count(skb, INGRESS_L3);
}

SEC("tc") int fl_egress_l3(struct __sk_buff *skb)
{
	return count(skb, EGRESS_L3);
}

SEC("tc") int other(struct __sk_buff *skb)
{
	(void)skb;
	return TC_ACT_UNSPEC;
}
