/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Devices of the network stack that frames do not know of: VLANs, whose frames have a tag on the
 * device below, and bonds, whose frames come in by their ports. The tag of a known VLAN is taken
 * off before anything else looks at the frame, and put back if it is left. Frames with two tags
 * have another type behind the first one, and are left.
 */
#ifndef FAIRLEAD_XDP_VLAN_H
#define FAIRLEAD_XDP_VLAN_H

#include "packet/headers.h"
#include "packet/packet.h"

struct xdp_link {
	__u32 ifindex;
	struct vlan_tag tag;
};

/*
 * From where a frame comes in, a device and its tag, to the device of the network stack; and from a
 * VLAN to the device and the tag that its frames leave by. Written by the agent; read at XDP. Full:
 * what is not in it is left to tc.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct xdp_link);
	__type(value, struct xdp_link);
} fl_xdp_link SEC(".maps");

struct stations {
	__u8 address[2 * ETH_ALEN];
};

struct tagged {
	struct stations stations;
	struct vlan_tag tag;
	__be16 type;
};

static __always_inline bool is_tag(__be16 type)
{
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD);
}

/* Of a frame that may be ours. False: the frame is as it came. */
__noinline int fl_take_tag(struct xdp_md *ctx)
{
	struct tagged *f = (void *)(long)ctx->data;
	struct xdp_link key = {.ifindex = ctx->ingress_ifindex};
	struct packet *p = this_packet();
	const struct xdp_link *found;

	if (!p || (void *)(f + 1) > (void *)(long)ctx->data_end ||
	    (f->type != bpf_htons(ETH_P_IP) && f->type != bpf_htons(ETH_P_IPV6)))
		return false;
	key.tag.type = f->tag.type;
	key.tag.tag = f->tag.tag & bpf_htons(VLAN_ID);
	found = bpf_map_lookup_elem(&fl_xdp_link, &key);
	if (!found)
		return false;
	p->came_by = found->ifindex;
	p->tag_in = f->tag;
	__builtin_memmove((__u8 *)f + sizeof(f->tag), &f->stations, sizeof(f->stations));
	/* There are that many bytes. */
	return bpf_xdp_adjust_head(ctx, sizeof(f->tag)) == 0;
}

static __always_inline bool put_tag(struct xdp_md *ctx, const struct vlan_tag *tag)
{
	struct tagged *f;

	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(f->tag)))
		return false;
	f = (void *)(long)ctx->data;
	if ((void *)(f + 1) > (void *)(long)ctx->data_end)
		return false;
	__builtin_memmove(&f->stations, (__u8 *)f + sizeof(f->tag), sizeof(f->stations));
	f->tag = *tag;
	return true;
}

/* Of a frame that is left: it is as it came. */
__noinline int fl_restore_tag(struct xdp_md *ctx)
{
	struct packet *p = this_packet();

	return p && put_tag(ctx, &p->tag_in);
}

/* Of a frame that is sent. */
__noinline int fl_add_tag(struct xdp_md *ctx)
{
	struct packet *p = this_packet();

	return p && put_tag(ctx, &p->tag_out);
}

/* Of a bond, whose port is p->came_by. Else that stays. */
static __always_inline void find_bond(struct packet *p)
{
	struct xdp_link key = {.ifindex = p->came_by};
	const struct xdp_link *found = bpf_map_lookup_elem(&fl_xdp_link, &key);

	if (found && !found->tag.type)
		p->came_by = found->ifindex;
}

#endif
