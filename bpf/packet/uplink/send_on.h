/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Datagrams of processes of this node whose socket insists on a device (IP_UNICAST_IF, IP_PKTINFO):
 * systemd-resolved asks the DNS server of a link so. The socket hook has led them to a backend, and
 * the kernel has routed them by that device, whatever the backend is behind. DNAT comes after such
 * a choice, and routes again without it: so does this.
 */
#ifndef FAIRLEAD_SEND_ON_H
#define FAIRLEAD_SEND_ON_H

#include "packet/uplink/sent_to.h"
#include "packet/uplink/way_back.h"

/* Of tc_index: a device that the packet crosses on its way was the right one. */
#define IS_ON_ITS_WAY 0x4000

/*
 * BPF_FIB_LOOKUP_MARK, Linux 6.10: the mark is where the answer has the addresses of stations. An
 * older kernel refuses, and the packet goes on as it was routed: rules may have gone by its mark.
 */
#define ASK_WITH_MARK (1U << 5)

static __always_inline __u32 set_mark_of_question(struct packet *p, __u32 mark)
{
	if (!mark)
		return 0;
	__builtin_memcpy(p->route.smac, &mark, sizeof(mark));
	return ASK_WITH_MARK;
}

/*
 * By the routes that have no such choice, in the VRF of this device. UNDECIDED: this is the right
 * device, or none is known.
 */
static __always_inline int send_on(struct __sk_buff *skb, enum family family)
{
	struct packet *p = this_packet();
	__u64 hash, *entry;
	__u32 flags;
	long result;

	if (!p)
		return UNDECIDED;
	hash = hash_backend(&p->wire.destination, family);
	entry = sent_to(hash);
	set_question(p, skb->ifindex, family);
	flags = set_mark_of_question(p, skb->mark);
	result = bpf_fib_lookup(skb, &p->route, sizeof(p->route), flags);
	if (!entry || (result != BPF_FIB_LKUP_RET_SUCCESS && result != BPF_FIB_LKUP_RET_NO_NEIGH))
		return UNDECIDED;
	if (!flags)
		set_sent_to(entry, sent_to_of(hash, p->route.ifindex, p->now));
	skb->tc_index |= IS_ON_ITS_WAY;
	if (p->route.ifindex == skb->ifindex)
		return UNDECIDED;
	if (!has_room_for_mac(skb, p))
		return unanswered(REASON_NOT_REWRITTEN);
	count_reason(REASON_SENT_ON);
	/* Not as send_by(): a tunnel without addresses of stations needs the route itself. */
	return bpf_redirect_neigh(p->route.ifindex, NULL, 0, 0);
}

__noinline int fl_send_on4(struct __sk_buff *skb)
{
	return send_on(skb, FAMILY_IPV4);
}

__noinline int fl_send_on6(struct __sk_buff *skb)
{
	return send_on(skb, FAMILY_IPV6);
}

/* A datagram of this node, to a backend, and not known to leave by the right device. */
static __always_inline bool may_insist(struct __sk_buff *skb, const struct packet *p,
				       enum family family)
{
	__u64 hash, *entry;

	if (p->wire.protocol != PROTOCOL_UDP || skb->ingress_ifindex ||
	    skb->tc_index & IS_ON_ITS_WAY)
		return false;
	hash = hash_backend(&p->wire.destination, family);
	entry = sent_to(hash);
	if (!entry || !has_backend(*entry, hash))
		return false;
	if (*entry != sent_to_of(hash, skb->ifindex, p->now))
		return true;
	skb->tc_index |= IS_ON_ITS_WAY;
	return false;
}

#endif
