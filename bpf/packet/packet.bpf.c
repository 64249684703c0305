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
#include "packet/flow/new_flow.h"
#include "packet/flow/own.h"
#include "packet/flow/reply.h"
#include "packet/fragment.h"
#include "packet/icmp/errors.h"
#include "packet/plain.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Family of the packet, 0: leave it, as what is not IP. Fills the packet's record. */
static __always_inline __u8 begin(struct __sk_buff *skb, struct packet *p, enum link link,
				  enum parsed *parsed)
{
	const struct packet_settings *s = packet_settings();
	__be16 type = skb->protocol;
	__u32 network = 0;

	p->is_plain = false;
	if (link == LINK_ETHERNET)
		type = skip_vlan_tags(skb, &network);
	if (link == LINK_TUNNEL)
		network = skip_outer_headers(skb);
	p->has_mac = link == LINK_ETHERNET;
	p->secret = s ? s->secret : 0;
	/* Before the first sync: flows made without the key would be lost when it is written. */
	if (!p->secret)
		return 0;
	if (type == bpf_htons(ETH_P_IP)) {
		if (link != LINK_TUNNEL && parse_plain4(skb, p, LINK_HEADER(link)))
			*parsed = PARSED_FLOW;
		else
			*parsed = fl_parse4(skb, network);
		return FAMILY_IPV4;
	}
	if (type == bpf_htons(ETH_P_IPV6)) {
		*parsed = fl_parse6(skb, network);
		return FAMILY_IPV6;
	}
	return 0;
}

/* Nothing from a device may reach what listens on loopback addresses only (CVE-2020-8558). */
static __always_inline bool is_martian(const struct packet *p, enum family family)
{
	return is_loopback(&p->wire.destination, family);
}

static __always_inline int ingress4(struct __sk_buff *skb, struct packet *p)
{
	int action = UNDECIDED;

	if (p->is_fragment && !fl_know_ports())
		return fl_stray4();
	if (is_marked(p, MARKS_INGRESS, &p->wire.destination, p->wire.destination_port,
		      FAMILY_IPV4)) {
		set_now(p);
		action = fl_request4(skb);
	}
	if (action == UNDECIDED &&
	    is_marked(p, MARKS_INGRESS, &p->wire.destination, ANY_PORT, FAMILY_IPV4)) {
		set_now(p);
		action = fl_reply4(skb);
	}
	if (action != UNDECIDED)
		return action;
	return p->is_later_fragment ? fl_stray4() : on_first(skb, FAMILY_IPV4);
}

static __always_inline int ingress6(struct __sk_buff *skb, struct packet *p)
{
	int action = UNDECIDED;

	if (p->is_fragment && !fl_know_ports())
		return fl_stray6();
	if (is_marked(p, MARKS_INGRESS, &p->wire.destination, p->wire.destination_port,
		      FAMILY_IPV6)) {
		set_now(p);
		action = fl_request6(skb);
	}
	if (action == UNDECIDED &&
	    is_marked(p, MARKS_INGRESS, &p->wire.destination, ANY_PORT, FAMILY_IPV6)) {
		set_now(p);
		action = fl_reply6(skb);
	}
	if (action != UNDECIDED)
		return action;
	return p->is_later_fragment ? fl_stray6() : on_first(skb, FAMILY_IPV6);
}

static __always_inline int icmp_ingress(struct __sk_buff *skb, __u8 family)
{
	if (family == FAMILY_IPV4)
		return fl_read_error4(skb) ? fl_error_in4(skb) : fl_answer_ping4(skb);
	return fl_read_error6(skb) ? fl_error_in6(skb) : fl_answer_ping6(skb);
}

static __always_inline int icmp_egress(struct __sk_buff *skb, __u8 family)
{
	if (family == FAMILY_IPV4)
		return fl_read_error4(skb) ? fl_error_out4(skb) : LEAVE;
	return fl_read_error6(skb) ? fl_error_out6(skb) : LEAVE;
}

static __always_inline int ingress(struct __sk_buff *skb, enum link link)
{
	struct packet *p = this_packet();
	enum parsed parsed = PARSED_OTHER;
	__u8 family;

	if (!p)
		return LEAVE;
	family = begin(skb, p, link, &parsed);
	if (parsed == PARSED_OTHER)
		return LEAVE;
	if (is_martian(p, family))
		return unanswered(REASON_DROPPED_MARTIAN);
	if (parsed == PARSED_ICMP)
		return icmp_ingress(skb, family);
	return family == FAMILY_IPV4 ? ingress4(skb, p) : ingress6(skb, p);
}

static __always_inline int egress4(struct __sk_buff *skb, const struct packet *p)
{
	int action;

	if (!may_have_nat(p, FAMILY_IPV4))
		return LEAVE;
	action = fl_egress_main4(skb);
	if (action == UNDECIDED)
		action = fl_egress_new4(skb);
	return action == UNDECIDED ? LEAVE : action;
}

static __always_inline int egress6(struct __sk_buff *skb, const struct packet *p)
{
	int action;

	if (!may_have_nat(p, FAMILY_IPV6))
		return LEAVE;
	action = fl_egress_main6(skb);
	if (action == UNDECIDED)
		action = fl_egress_new6(skb);
	return action == UNDECIDED ? LEAVE : action;
}

static __always_inline int egress(struct __sk_buff *skb, enum link link)
{
	struct packet *p = this_packet();
	enum parsed parsed = PARSED_OTHER;
	__u8 family;

	if (!p)
		return LEAVE;
	family = begin(skb, p, link, &parsed);
	if (parsed == PARSED_ICMP)
		return icmp_egress(skb, family);
	if (parsed == PARSED_OTHER || (p->is_fragment && !fl_know_ports()))
		return LEAVE;
	if (p->wire.protocol != PROTOCOL_TCP && may_be_node_port(p->wire.source_port))
		family == FAMILY_IPV4 ? fl_note_own4() : fl_note_own6();
	return family == FAMILY_IPV4 ? egress4(skb, p) : egress6(skb, p);
}

SEC("tc") int fl_ingress(struct __sk_buff *skb)
{
	return ingress(skb, LINK_ETHERNET);
}

SEC("tc") int fl_egress(struct __sk_buff *skb)
{
	return egress(skb, LINK_ETHERNET);
}

/* For devices without Ethernet headers: tun, ipip, WireGuard, PPP. */
SEC("tc") int fl_ingress_l3(struct __sk_buff *skb)
{
	return ingress(skb, LINK_TUNNEL);
}

SEC("tc") int fl_egress_l3(struct __sk_buff *skb)
{
	return egress(skb, LINK_NONE);
}
