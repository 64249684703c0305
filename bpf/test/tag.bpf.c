/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tags all that a device sends, as a VLAN above it would. Not shipped. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tc") int vlan_7(struct __sk_buff *skb)
{
	return bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), 7) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

/* VLAN 0: the frame has a priority, and is in no VLAN. */
SEC("tc") int priority_6(struct __sk_buff *skb)
{
	return bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), 6 << 13) ? TC_ACT_SHOT
								       : TC_ACT_UNSPEC;
}
