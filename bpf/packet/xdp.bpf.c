/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The packet layer at XDP, before the kernel makes a packet of a frame: what packet.bpf.c does with
 * the same maps, in one step and without the network stack, for the packets of which it knows the
 * way on. Everything else goes up to those programs, which are complete.
 */
#include "packet/packet.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* For devices with Ethernet headers. */
SEC("xdp") int fl_xdp(struct xdp_md *ctx)
{
	const struct packet_settings *s = packet_settings();
	__u32 ifindex = ctx->ingress_ifindex;
	const struct device *device = bpf_map_lookup_elem(&fl_device, &ifindex);

	if (!s || !s->secret || !device)
		return XDP_PASS;
	return XDP_PASS;
}
