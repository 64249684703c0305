/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The packet layer: requests to a Service go to a backend at ingress, and get a SNAT address at
 * egress if they are masqueraded; replies are translated back, at ingress and at egress. Between
 * the two, the network stack of this node, its packet filters and its tunnels see the client and
 * the backend. Nothing matches twice, so a packet may cross any number of devices with these
 * programs.
 *
 * Programs do nothing themselves: each step is a global function, which the verifier checks once.
 */
#include "packet/answer/ping.h"
#include "packet/flow/egress.h"
#include "packet/flow/first.h"
#include "packet/flow/here.h"
#include "packet/conn/pass_on.h"
#include "packet/flow/reply.h"
#include "packet/flow/fragment.h"
#include "packet/icmp/errors.h"
#include "packet/ipip/error.h"
#include "packet/plain/plain.h"
#include "packet/snat/own.h"
#include "packet/uplink/send_on.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* --- ingress -----------------------------------------------------------------------------------
 */

static __always_inline int on_unfound(struct __sk_buff *skb, struct packet *p, enum family family)
{
	return passes_on() ? PASS_ON : on_no_conn(skb, p, family);
}

/* Nothing from a device may reach what listens on loopback addresses only (CVE-2020-8558). */
static __always_inline bool is_martian(const struct packet *p, enum family family)
{
	return is_loopback(&p->wire.destination, family);
}

static __always_inline bool may_be_request(const struct packet *p, enum family family)
{
	return is_marked(p, MARKS_INGRESS, &p->wire.destination,
			 port_mark(p, p->wire.destination_port), family);
}

static __always_inline bool may_be_reply(const struct packet *p, enum family family)
{
	return is_marked(p, MARKS_INGRESS, &p->wire.destination, SNAT_PORTS, family);
}

static __always_inline int request_in(struct __sk_buff *skb, bool is_found, enum family family)
{
	int action = family == FAMILY_IPV4 ? fl_request4(skb, is_found) : fl_request6(skb);

	if (with_direct_return && unlikely(action == GOES_DIRECTLY))
		return go_on_directly(skb, family);
	return action;
}

static __always_inline int ingress_of(struct __sk_buff *skb, struct packet *p, enum family family)
{
	int action = UNDECIDED;

	if (may_be_request(p, family)) {
		set_now(p);
		action = request_in(skb, false, family);
	}
	/* What keeps its backend is a request, and a look-up of answers would overwrite p->conn. */
	if (action == UNDECIDED && !p->keeps_backend && may_be_reply(p, family)) {
		set_now(p);
		action = reply(skb, family);
	}
	return action == UNDECIDED ? on_unfound(skb, p, family) : action;
}

static __always_inline int icmp_ingress(struct __sk_buff *skb, const struct packet *p, __u8 family)
{
	if (family == FAMILY_IPV4 ? fl_read_error4(skb) : fl_read_error6(skb))
		return family == FAMILY_IPV4 ? fl_error_in4(skb) : fl_error_in6(skb);
	if (with_direct_return && unlikely(is_about_ipip(p, family)))
		return fl_ipip_error(skb);
	return family == FAMILY_IPV4 ? fl_answer_ping4(skb) : fl_answer_ping6(skb);
}

/* What is no plain packet. */
static __always_inline int other_ingress(struct __sk_buff *skb, enum link link)
{
	struct packet *p = this_packet();
	enum parsed parsed = PARSED_OTHER;
	__u8 family;

	if (!p)
		return LEAVE;
	family = parse(skb, link, &parsed);
	if (parsed == PARSED_OTHER)
		return LEAVE;
	if (is_martian(p, family))
		return unanswered(REASON_DROPPED_MARTIAN);
	if (parsed == PARSED_ICMP)
		return icmp_ingress(skb, p, family);
	if (p->is_fragment && !fl_know_ports())
		return family == FAMILY_IPV4 ? fl_stray4() : fl_stray6();
	return family == FAMILY_IPV4 ? ingress_of(skb, p, FAMILY_IPV4)
				     : ingress_of(skb, p, FAMILY_IPV6);
}

__noinline int fl_other_in(struct __sk_buff *skb)
{
	return other_ingress(skb, LINK_ETHERNET);
}

/* As ingress_of(), with a look-up of its own for the most usual packets. */
static __always_inline int plain_ingress(struct __sk_buff *skb, struct packet *p)
{
	bool is_request, is_reply, is_found = false;
	int action = UNDECIDED;

	if (is_martian(p, FAMILY_IPV4))
		return unanswered(REASON_DROPPED_MARTIAN);
	is_request = may_be_request(p, FAMILY_IPV4);
	is_reply = !is_request && may_be_reply(p, FAMILY_IPV4);
	if (is_request || is_reply) {
		set_now(p);
		is_found = may_be_here(p) && find_in(p, is_request);
		if (is_found)
			action = ingress_here(skb, p, is_request);
	}
	if (unlikely(action == UNDECIDED && is_request)) {
		action = request_in(skb, is_found, FAMILY_IPV4);
		is_found = false;
		is_reply = !p->keeps_backend && may_be_reply(p, FAMILY_IPV4);
	}
	if (unlikely(action == UNDECIDED && is_reply))
		action = fl_reply_in4(skb, is_found);
	return action == UNDECIDED ? on_unfound(skb, p, FAMILY_IPV4) : action;
}

/* --- egress ------------------------------------------------------------------------------------
 */

/* What leaves from an address that connections have SNAT ports of. */
static __always_inline int egress_of_node(struct __sk_buff *skb, struct packet *p,
					  enum family family)
{
	int action = go_on_own(skb, p, family);

	if (action != UNDECIDED || !may_begin_own(p))
		return action;
	action = own(skb, family);
	return action == BEGINS_HERE ? go_on_own(skb, p, family) : action;
}

/* What need not be of TCP. UNDECIDED: its connection is to be looked for. */
static __always_inline int datagram_out(struct __sk_buff *skb, struct packet *p, enum family family)
{
	set_now(p);
	if (is_left_at_egress(p, family))
		return LEAVE;
	if (may_be_node_port(p->wire.source_port))
		note_own_datagram(family);
	if (unlikely(may_insist(skb, p, family)))
		return family == FAMILY_IPV4 ? fl_send_on4(skb) : fl_send_on6(skb);
	return UNDECIDED;
}

/* Of no connection. */
static __always_inline int left_out(void)
{
	return passes_on() ? PASS_ON : LEAVE;
}

/* In one of these roles, of which there is at least one. */
static __always_inline int egress_as(struct __sk_buff *skb, struct packet *p, __u32 roles,
				     enum family family)
{
	int action = egress(skb, p, roles, family);

	if (action == UNDECIDED && passes_on())
		return PASS_ON;
	if (action == UNDECIDED && unlikely(is_from_node(p, family)))
		action = egress_of_node(skb, p, family);
	return action == UNDECIDED ? LEAVE : action;
}

static __always_inline int egress_of(struct __sk_buff *skb, struct packet *p, enum family family)
{
	int action = UNDECIDED;
	__u32 roles;

	if (p->wire.protocol != PROTOCOL_TCP)
		action = datagram_out(skb, p, family);
	if (action != UNDECIDED)
		return action;
	roles = roles_of(p, family);
	return roles ? egress_as(skb, p, roles, family) : left_out();
}

static __always_inline int icmp_egress(struct __sk_buff *skb, __u8 family)
{
	if (family == FAMILY_IPV4)
		return fl_read_error4(skb) ? fl_error_out4(skb) : LEAVE;
	return fl_read_error6(skb) ? fl_error_out6(skb) : LEAVE;
}

/* What is no plain packet. */
static __always_inline int other_egress(struct __sk_buff *skb, enum link link)
{
	struct packet *p = this_packet();
	enum parsed parsed = PARSED_OTHER;
	__u8 family;

	if (!p)
		return LEAVE;
	family = parse(skb, link, &parsed);
	if (parsed == PARSED_ICMP)
		return icmp_egress(skb, family);
	if (parsed == PARSED_OTHER || (p->is_fragment && !fl_know_ports()))
		return LEAVE;
	return family == FAMILY_IPV4 ? egress_of(skb, p, FAMILY_IPV4)
				     : egress_of(skb, p, FAMILY_IPV6);
}

__noinline int fl_other_out(struct __sk_buff *skb)
{
	return other_egress(skb, LINK_ETHERNET);
}

/* As egress_of(), with a look-up of its own for the most usual packets. */
static __always_inline int plain_egress(struct __sk_buff *skb, struct packet *p)
{
	int action = UNDECIDED;
	__u32 roles;

	if (p->wire.protocol != PROTOCOL_TCP)
		action = datagram_out(skb, p, FAMILY_IPV4);
	if (action != UNDECIDED)
		return action;
	roles = roles_of(p, FAMILY_IPV4);
	if (!roles)
		return left_out();
	set_now(p);
	if (may_be_here(p))
		roles = find_out(p, roles);
	if (roles & IS_FOUND)
		action = egress_here(skb, p, roles & IS_ANSWER);
	else if (!roles && !is_from_node(p, FAMILY_IPV4))
		return left_out();
	return unlikely(action == UNDECIDED) ? egress_as(skb, p, roles, FAMILY_IPV4) : action;
}

/* --- programs ----------------------------------------------------------------------------------
 */

/*
 * The element to work in. NULL: the packet is left. Before the first sync there is no key, and
 * connections made without it would be lost when it is written.
 */
static __always_inline struct packet *begin(bool has_mac)
{
	const struct packet_settings *s = packet_settings();
	struct packet *p = this_packet();

	if (!p || !s || !s->secret)
		return NULL;
	p->env.secret = s->secret;
	p->has_mac = has_mac;
	p->is_plain = false;
	p->in_geneve = false;
	p->keeps_backend = false;
	p->of_stale = false;
	p->former_backend = 0;
	p->answers_by = 0;
	return p;
}

/*
 * A device that listens to all, or whose switch floods, brings frames for other stations. The stack
 * drops them: netfilter never sees them. By the port of a master there may be frames for that.
 */
__noinline int fl_is_for_another(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;
	const struct device *device = bpf_map_lookup_elem(&fl_device, &ifindex);

	return device && device->ifindex == ifindex && device->flags.drops_others;
}

/*
 * A frame of a VLAN comes in again by the VLAN's device, without its tag: that has the addresses,
 * and the routes of answers. VLAN 0 is a priority alone.
 */
static __always_inline bool is_of_vlan(const struct __sk_buff *skb)
{
	return unlikely(skb->vlan_present) && skb->vlan_tci & VLAN_ID;
}

/* Plain packets are all that is here, so that their instructions are in few lines of the cache. */
SEC("tc") int fl_ingress(struct __sk_buff *skb)
{
	struct packet *p = begin(true);

	if (!p || is_of_vlan(skb) ||
	    (unlikely(skb->pkt_type == PACKET_OTHERHOST) && fl_is_for_another(skb)))
		return LEAVE;
	return end_with(skb,
			parse_plain4(skb, p, ETH_HLEN) ? plain_ingress(skb, p) : fl_other_in(skb),
			NEXT_INGRESS);
}

SEC("tc") int fl_egress(struct __sk_buff *skb)
{
	struct packet *p = begin(true);

	if (!p)
		return LEAVE;
	return end_with(skb,
			parse_plain4(skb, p, ETH_HLEN) ? plain_egress(skb, p) : fl_other_out(skb),
			NEXT_EGRESS);
}

/* For devices without Ethernet headers: tun, ipip, WireGuard, PPP. */
SEC("tc") int fl_ingress_l3(struct __sk_buff *skb)
{
	return begin(false) ? end_with(skb, other_ingress(skb, LINK_TUNNEL), NEXT_INGRESS_L3)
			    : LEAVE;
}

SEC("tc") int fl_egress_l3(struct __sk_buff *skb)
{
	return begin(false) ? end_with(skb, other_egress(skb, LINK_NONE), NEXT_EGRESS_L3) : LEAVE;
}
