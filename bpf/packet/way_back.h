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

/* From the frontend to the client by this device, as rules and routes say. Fills p->route. */
static __always_inline bool has_way_back(struct __sk_buff *skb, struct packet *p, __u32 device,
					 enum family family)
{
	struct bpf_fib_lookup *r = &p->route;
	const struct tuple *t = &p->wire;
	long result;

	__builtin_memset(r, 0, sizeof(*r));
	r->l4_protocol = t->protocol;
	r->sport = bpf_htons(t->source_port);
	r->dport = bpf_htons(t->destination_port);
	r->ifindex = device;
	if (family == FAMILY_IPV4) {
		r->family = AF_INET;
		r->ipv4_src = t->source.word[3];
		r->ipv4_dst = t->destination.word[3];
	} else {
		r->family = AF_INET6;
		__builtin_memcpy(r->ipv6_src, &t->source, sizeof(r->ipv6_src));
		__builtin_memcpy(r->ipv6_dst, &t->destination, sizeof(r->ipv6_dst));
	}
	result = bpf_fib_lookup(skb, r, sizeof(*r), BPF_FIB_LOOKUP_OUTPUT);
	return (result == BPF_FIB_LKUP_RET_SUCCESS || result == BPF_FIB_LKUP_RET_NO_NEIGH) &&
	       r->ifindex == device;
}

static __always_inline int leave_by(struct __sk_buff *skb, __u32 device, enum family family)
{
	struct packet *p = this_packet();

	if (!p || !p->has_mac || !has_way_back(skb, p, device, family)) {
		count_reason(REASON_ANSWER_NO_WAY);
		return LEAVE;
	}
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
