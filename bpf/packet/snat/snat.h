/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The SNAT address and port of a masqueraded connection, at egress of its first packet. Both stay
 * for its life. Who has the reply tuple has the port: no two connections to one backend ever share
 * one.
 */
#ifndef FAIRLEAD_SNAT_H
#define FAIRLEAD_SNAT_H

#include "packet/flow/known.h"
#include "packet/hook.h"

static __always_inline bool is_no_address(const struct address *a, enum family family)
{
	return !(a->word[3] | (family == FAMILY_IPV6 ? a->word[0] | a->word[1] | a->word[2] : 0));
}

/* Sets p->back to what the backend answers, but for the port. False: no address is known. */
static __always_inline bool set_snat_address(hook_context *ctx, struct packet *p,
					     enum family family)
{
	const struct packet_settings *s = packet_settings();
	__u32 ifindex = device_of(ctx, p);
	struct device *device = bpf_map_lookup_elem(&fl_device, &ifindex);
	struct address *a = &p->back.destination;

	if (!s)
		return false;
	get_address(family == FAMILY_IPV4 ? s->node_address4 : s->node_address6, a, family);
	if (device && device->ifindex == ifindex) {
		struct address own;

		get_address(family == FAMILY_IPV4 ? device->snat4 : device->snat6, &own, family);
		if (!is_no_address(&own, family))
			*a = own;
	}
	if (unlikely(p->conn.conn.marks.own))
		*a = p->wire.source;
	p->back.source = p->wire.destination;
	p->back.source_port = p->wire.destination_port;
	p->back.protocol = p->wire.protocol;
	return !is_no_address(a, family);
}

/* --- who else may have the port ----------------------------------------------------------------
 */

static __always_inline void set_socket_tuple(const struct packet *p, struct bpf_sock_tuple *t,
					     enum family family)
{
	if (family == FAMILY_IPV4) {
		t->ipv4.saddr = p->back.source.word[3];
		t->ipv4.daddr = p->back.destination.word[3];
		t->ipv4.sport = bpf_htons(p->back.source_port);
		t->ipv4.dport = bpf_htons(p->back.destination_port);
	} else {
		__builtin_memcpy(t->ipv6.saddr, &p->back.source, sizeof(t->ipv6.saddr));
		__builtin_memcpy(t->ipv6.daddr, &p->back.destination, sizeof(t->ipv6.daddr));
		t->ipv6.sport = bpf_htons(p->back.source_port);
		t->ipv6.dport = bpf_htons(p->back.destination_port);
	}
}

static __always_inline bool is_of_tcp_socket(hook_context *ctx, struct bpf_sock_tuple *t,
					     __u32 size)
{
	struct bpf_sock *sk = bpf_skc_lookup_tcp(ctx, t, size, BPF_F_CURRENT_NETNS, 0);

	if (sk)
		bpf_sk_release(sk);
	return sk != NULL;
}

static __always_inline bool is_of_udp_socket(hook_context *ctx, struct bpf_sock_tuple *t,
					     __u32 size)
{
	struct bpf_sock *sk = bpf_sk_lookup_udp(ctx, t, size, BPF_F_CURRENT_NETNS, 0);

	if (sk)
		bpf_sk_release(sk);
	return sk != NULL;
}

/* A socket of this node that would get the replies. There is no look-up of SCTP sockets. */
static __always_inline bool is_of_socket(hook_context *ctx, const struct packet *p,
					 enum family family)
{
	struct bpf_sock_tuple t = {};
	__u32 size = family == FAMILY_IPV4 ? sizeof(t.ipv4) : sizeof(t.ipv6);

	set_socket_tuple(p, &t, family);
	if (p->back.protocol == PROTOCOL_TCP)
		return is_of_tcp_socket(ctx, &t, size);
	return p->back.protocol == PROTOCOL_UDP && is_of_udp_socket(ctx, &t, size);
}

/* What comes to it is taken for requests to a NodePort. */
static __always_inline bool is_node_port(struct packet *p, const struct address *a, __u16 port,
					 enum family family)
{
	struct request *r = &p->request;

	if (!may_be_node_port(port))
		return false;
	__builtin_memset(r, 0, sizeof(*r));
	r->address = *a;
	r->port = port;
	r->protocol = p->wire.protocol;
	r->position = POSITION_OUTSIDE;
	return answers_node_ports(r, family) && frontend_at(r, MATCH_ANY_NODE_ADDRESS, family);
}

#endif
