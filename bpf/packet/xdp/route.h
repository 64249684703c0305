/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The way on of a packet, as the kernel's tables have it: what the network stack does between the
 * programs at tc. Whatever needs more than that is left to the stack.
 */
#ifndef FAIRLEAD_XDP_ROUTE_H
#define FAIRLEAD_XDP_ROUTE_H

#include "common/count.h"
#include "packet/packet.h"
#include "packet/xdp/known.h"
#include "packet/xdp/vlan.h"

/* <sys/socket.h> cannot be included here. */
#define AF_INET	 2
#define AF_INET6 10

/* Between these two, with their ports as this packet has them; length 0: any. Fills p->route. */
static __always_inline long look_up(struct xdp_md *ctx, struct packet *p,
				    const struct address *from, const struct address *to,
				    __u32 ports, __u16 length, enum family family)
{
	struct bpf_fib_lookup *r = &p->route;

	__builtin_memset(r, 0, sizeof(*r));
	r->l4_protocol = p->wire.protocol;
	r->sport = bpf_htons(ports >> 16);
	r->dport = bpf_htons(ports);
	r->tot_len = length;
	r->ifindex = p->came_by;
	if (family == FAMILY_IPV4) {
		r->family = AF_INET;
		r->tos = p->traffic_class;
		r->ipv4_src = from->word[3];
		r->ipv4_dst = to->word[3];
	} else {
		r->family = AF_INET6;
		r->flowinfo = p->traffic_class;
		__builtin_memcpy(r->ipv6_src, from->word, sizeof(r->ipv6_src));
		__builtin_memcpy(r->ipv6_dst, to->word, sizeof(r->ipv6_dst));
	}
	return bpf_fib_lookup(ctx, r, sizeof(*r), 0);
}

/*
 * The sender is reached by the device that the packet came by: with any setting of rp_filter the
 * stack takes it. It may refuse what comes by another way, and what has an address of this node.
 */
static __always_inline bool comes_by_its_way(struct xdp_md *ctx, struct packet *p,
					     enum family family)
{
	const struct tuple *t = &p->wire;
	__u32 ports = two_ports(t->destination_port, t->source_port);

	return look_up(ctx, p, &t->destination, &t->source, ports, 0, family) ==
		       BPF_FIB_LKUP_RET_SUCCESS &&
	       p->route.ifindex == p->came_by;
}

static __always_inline bool is_target(__u32 ifindex)
{
	const struct device *device = bpf_map_lookup_elem(&fl_device, &ifindex);

	return device && device->ifindex == ifindex && device->flags.xdp_target;
}

/* The way on is a VLAN: then it is by the device below, with a tag. */
__noinline int fl_find_below(void)
{
	struct packet *p = this_packet();
	struct xdp_link key = {};
	const struct xdp_link *found;

	if (!p)
		return false;
	key.ifindex = p->route.ifindex;
	found = bpf_map_lookup_elem(&fl_xdp_link, &key);
	if (!found || !found->tag.type || !is_target(found->ifindex))
		return false;
	p->tag_out = found->tag;
	p->route.ifindex = found->ifindex;
	return true;
}

static __always_inline bool has_no_way(const struct packet *p, enum reason reason)
{
	count_reason(reason);
	know_left(p, reason);
	return false;
}

/* By p->route, whose device may be a VLAN. */
static __always_inline bool has_target(struct packet *p, __u64 way)
{
	bool is_vlan = !is_target(p->route.ifindex);

	p->device = p->route.ifindex;
	if (is_vlan && !fl_find_below())
		return has_no_way(p, REASON_XDP_NO_TARGET);
	fl_know_hop(way, is_vlan);
	return true;
}

static __always_inline bool ask_for_way(struct xdp_md *ctx, struct packet *p,
					const struct address *to, __u16 port, __u64 way,
					enum family family)
{
	__u32 ports = two_ports(p->wire.source_port, port);

	switch (look_up(ctx, p, &p->wire.source, to, ports, p->length, family)) {
	case BPF_FIB_LKUP_RET_SUCCESS:
		return has_target(p, way);
	case BPF_FIB_LKUP_RET_NO_NEIGH:
		return has_no_way(p, REASON_XDP_NO_NEIGHBOUR);
	case BPF_FIB_LKUP_RET_FRAG_NEEDED:
		/* Others of its flow may be smaller. */
		count_reason(REASON_XDP_TOO_BIG);
		return false;
	default:
		return has_no_way(p, REASON_XDP_NO_WAY);
	}
}

/* True: the packet can be sent from here, by p->route. */
static __always_inline bool find_way(struct xdp_md *ctx, struct packet *p, const struct address *to,
				     __u16 port, enum family family)
{
	__u64 way = way_to(p, to, port, family);
	const struct hop *hop = find_hop(p, way);

	if (!hop)
		return ask_for_way(ctx, p, to, port, way, family);
	return !hop->is_vlan || fl_find_below() || has_no_way(p, REASON_XDP_NO_TARGET);
}

#endif
