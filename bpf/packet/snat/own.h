/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What this node sends from its own address to a backend: its own connections, and what netfilter
 * has masqueraded for pods. Flows may have any port of the node, so that an answer could be
 * either's.
 *
 * - A connection of the node from a port that a flow has gets another port, as a flow of its own.
 * - A connection of a pod notes its port, because no socket of the node has it. No flow gets it
 *   until the sweep takes the leg, after 20 seconds.
 * - A datagram from the number of a NodePort notes its port: else what comes back would be taken
 * for a request. Of TCP only a SYN begins a connection there.
 *
 * Linux has given the port without asking: before, and after, flows can have it.
 */
#ifndef FAIRLEAD_OWN_H
#define FAIRLEAD_OWN_H

#include "packet/flow/new_flow.h"
#include "packet/snat/snat.h"

/* A snat leg whose client is the node says whose the port is. */
static __always_inline void note_own(struct packet *p, enum family family)
{
	struct snat *held = find_snat_of(p, family);

	if (!held) {
		set_mark(p, MARKS_INGRESS, &p->wire.source, SNAT_PORTS, family);
		put_own_snat(p, TIER_NEW, family);
	} else if (held->check == snat_check(p, family))
		held->seen_seconds = p->now;
}

/* A translated reply that leaves by a second device has a flow. */
static __always_inline int note_own_datagram(struct packet *p, enum family family)
{
	if (!is_node_port(p, &p->wire.source, p->wire.source_port, family))
		return 0;
	reverse(&p->wire, &p->snat);
	if (find_flow(TIER_MAIN, &p->snat, family) || find_flow(TIER_NEW, &p->snat, family))
		return 0;
	set_now(p);
	note_own(p, family);
	return 0;
}

__noinline int fl_note_own4(void)
{
	struct packet *p = this_packet();

	return p ? note_own_datagram(p, FAMILY_IPV4) : 0;
}

__noinline int fl_note_own6(void)
{
	struct packet *p = this_packet();

	return p ? note_own_datagram(p, FAMILY_IPV6) : 0;
}

/* --- connections from a port of a flow ---------------------------------------------------------
 */

/* Sets p->nat to the key of the nat leg of the flow that has the snat leg. */
static __always_inline void set_holder(struct packet *p, struct snat *held, enum family family)
{
	get_address(client_of(held), &p->quoted.source, family);
	p->quoted.source_port = held->client_port;
	p->quoted.destination = p->wire.destination;
	p->quoted.destination_port = p->wire.destination_port;
	p->quoted.protocol = p->wire.protocol;
	set_sorted(&p->quoted, &p->nat);
}

/* The flow of p->nat has the port, or is about to note that it has. */
static __always_inline bool has_port(const struct nat *nat, __u16 port)
{
	return nat && (!nat->snat_port || nat->snat_port == port);
}

static __always_inline bool is_of_own_socket(const struct __sk_buff *skb, const struct packet *p)
{
	struct bpf_sock *sk = skb->sk ? bpf_sk_fullsock(skb->sk) : NULL;

	return sk && sk->src_port == p->wire.source_port;
}

/* Whether the packet is of a connection whose port is that of a flow, which is then p->flow. */
static __always_inline bool meets_flow(struct __sk_buff *skb, struct packet *p, enum family family)
{
	struct snat *held;
	struct nat *nat;
	bool is_own;

	set_now(p);
	reverse(&p->wire, &p->snat);
	held = find_snat_of(p, family);
	if (!held || held->check == snat_check(p, family)) {
		if (p->syn && !is_of_own_socket(skb, p))
			note_own(p, family);
		return false;
	}
	is_own = is_of_own_socket(skb, p);
	/* A datagram of a flow that leaves by a second device, for all that is known. */
	if (!p->syn && !is_own)
		return false;
	set_holder(p, held, family);
	nat = find_nat_of(p, family);
	/* So does the SYN of the flow. That of another one may look like it, see syn_of(). */
	return has_port(nat, p->wire.source_port) && (is_own || nat->syn != p->syn);
}

__noinline int fl_meets_flow4(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p && meets_flow(skb, p, FAMILY_IPV4);
}

__noinline int fl_meets_flow6(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p && meets_flow(skb, p, FAMILY_IPV6);
}

/*
 * A flow through a frontend that is the backend itself. Its requests do not come in: egress follows
 * them, and counts this one too, see follow_own().
 */
static __always_inline int begin_own(struct packet *p, enum family family)
{
	choose_destination(p);
	p->choice.masquerade = 1;
	make_flow(p);
	p->flow.packets = 0;
	p->flow.bytes = 0;
	p->flow.client_port = p->wire.source_port;
	p->begins_in_main = true;
	set_nat_key(p);
	make_nat(p, family);
	p->leg.nat.flags.own = 1;
	if (!put_first_nat(p, family) || !put_new_flow(p, family))
		return unanswered(REASON_DROPPED_NO_FLOW);
	fl_count_flow(p->flow.backend_id, p->flow.born_seconds);
	return BEGINS;
}

__noinline int fl_begin_own4(void)
{
	struct packet *p = this_packet();

	return p ? begin_own(p, FAMILY_IPV4) : UNDECIDED;
}

__noinline int fl_begin_own6(void)
{
	struct packet *p = this_packet();

	return p ? begin_own(p, FAMILY_IPV6) : UNDECIDED;
}

/* BEGINS: the packet has a flow by now, which gives it another port. */
static __always_inline int own(struct __sk_buff *skb, enum family family)
{
	if (family == FAMILY_IPV4)
		return fl_meets_flow4(skb) && !fl_forget_ended4() ? fl_begin_own4() : UNDECIDED;
	return fl_meets_flow6(skb) && !fl_forget_ended6() ? fl_begin_own6() : UNDECIDED;
}

/* A first packet from an address that flows have ports of. The port of SCTP cannot change. */
static __always_inline bool may_be_own(const struct packet *p, enum family family)
{
	return is_first(p) && p->wire.protocol != PROTOCOL_SCTP &&
	       is_marked(p, MARKS_INGRESS, &p->wire.source, SNAT_PORTS, family);
}

#endif
