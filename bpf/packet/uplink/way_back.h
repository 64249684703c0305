/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers leave by the device that their requests came in by, whatever the rules of routing say
 * about the address of the backend: a second uplink may be the way of a pod's own connections
 * alone, and what leaves there with an address of the first one is dropped by the network.
 *
 * Routes and packet filters have seen the backend's address. At egress of the wrong device the
 * answer has the frontend's, by which the tables are asked again. An object for XDP leaves such
 * answers to this one: see xdp/hook.h.
 */
#ifndef FAIRLEAD_WAY_BACK_H
#define FAIRLEAD_WAY_BACK_H

#include "packet/geneve/room.h"
#include "packet/geneve/way.h"
#include "packet/hook.h"

/* ifindex of the loopback device in every network namespace: of what the node itself sends. */
#define LOOPBACK 1

static __always_inline void set_question(struct packet *p, __u32 ifindex, enum family family)
{
	struct bpf_fib_lookup *r = &p->route;
	const struct tuple *t = &p->wire;

	__builtin_memset(r, 0, sizeof(*r));
	r->l4_protocol = t->protocol;
	r->sport = bpf_htons(t->source_port);
	r->dport = bpf_htons(t->destination_port);
	r->ifindex = ifindex;
	if (family == FAMILY_IPV4) {
		r->family = AF_INET;
		r->ipv4_src = t->source.word[3];
		r->ipv4_dst = t->destination.word[3];
	} else {
		r->family = AF_INET6;
		__builtin_memcpy(r->ipv6_src, &t->source, sizeof(r->ipv6_src));
		__builtin_memcpy(r->ipv6_dst, &t->destination, sizeof(r->ipv6_dst));
	}
}

/* The kernel asks for the next station if it does not know it yet. */
static __always_inline bool leads_to(struct __sk_buff *skb, struct packet *p, __u32 device,
				     __u32 flags)
{
	long result = bpf_fib_lookup(skb, &p->route, sizeof(p->route), flags);

	return (result == BPF_FIB_LKUP_RET_SUCCESS || result == BPF_FIB_LKUP_RET_NO_NEIGH) &&
	       p->route.ifindex == device;
}

/*
 * From the frontend to the client by this device, as rules and routes say. Fills p->route. When the
 * kernel is told the device, it looks at no rule of IPv6 that names a source, and takes another
 * device whose route has a better metric: so it is asked without the device first.
 */
static __always_inline bool has_way_back(struct __sk_buff *skb, struct packet *p, __u32 device,
					 enum family family)
{
	if (family == FAMILY_IPV6) {
		set_question(p, LOOPBACK, family);
		if (leads_to(skb, p, device, 0))
			return true;
	}
	set_question(p, device, family);
	return leads_to(skb, p, device, BPF_FIB_LOOKUP_OUTPUT);
}

/* To a pod, or by a tunnel: as the routes say. */
static __always_inline bool may_be_wrong(__u32 ifindex)
{
	const struct device *device = bpf_map_lookup_elem(&fl_device, &ifindex);

	return device && device->ifindex == ifindex && device->flags.is_uplink &&
	       !device->flags.is_tunnel;
}

/* A redirect takes off an Ethernet header, and needs one for that. */
static __always_inline bool has_room_for_mac(struct __sk_buff *skb, const struct packet *p)
{
	return p->has_mac || !bpf_skb_change_head(skb, ETH_HLEN, 0);
}

static __always_inline int leave_by(struct __sk_buff *skb, __u32 device, enum family family)
{
	struct packet *p = this_packet();

	if (!p || !may_be_wrong(skb->ifindex))
		return LEAVE;
	if (!has_way_back(skb, p, device, family)) {
		count_reason(REASON_ANSWER_NO_WAY);
		return LEAVE;
	}
	if (!has_room_for_mac(skb, p))
		return unanswered(REASON_NOT_REWRITTEN);
	count_reason(REASON_ANSWER_SENT_BACK);
	/* The program of that device has nothing to do with it. */
	leave_at_egress(p, family);
	return send_by(&p->route);
}

__noinline int fl_return_by4(struct __sk_buff *skb, __u32 device)
{
	return leave_by(skb, device, FAMILY_IPV4);
}

__noinline int fl_return_by6(struct __sk_buff *skb, __u32 device)
{
	return leave_by(skb, device, FAMILY_IPV6);
}

/* Of an answer that has been translated. The usual one leaves by the right device. */
static __always_inline int return_by(struct __sk_buff *skb, __u32 answers_by, enum family family)
{
	if (!answers_by || answers_by == skb->ifindex)
		return LEAVE;
	return family == FAMILY_IPV4 ? fl_return_by4(skb, answers_by)
				     : fl_return_by6(skb, answers_by);
}

#endif
