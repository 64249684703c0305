/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The SNAT address and port of a masqueraded flow, at egress of its first packet. Both stay for the
 * life of the flow. A snat leg that can be inserted makes the port the flow's: no two flows to one
 * backend ever share one.
 */
#ifndef FAIRLEAD_SNAT_H
#define FAIRLEAD_SNAT_H

#include "packet/flow/legs.h"
#include "packet/flow/new_flow.h"

/* Sets p->snat from the request on the wire, but for the port. False: no address is known. */
static __always_inline bool set_snat_address(hook_context *ctx, struct packet *p,
					     enum family family)
{
	const struct packet_settings *s = packet_settings();
	__u32 ifindex = device_of(ctx, p);
	struct device *device = bpf_map_lookup_elem(&fl_device, &ifindex);
	struct address *a = &p->snat.destination;

	if (!s)
		return false;
	get_address(family == FAMILY_IPV4 ? s->node_address4 : s->node_address6, a, family);
	if (device && device->ifindex == ifindex) {
		struct address own;

		get_address(family == FAMILY_IPV4 ? device->snat4 : device->snat6, &own, family);
		if (own.word[3] |
		    (family == FAMILY_IPV6 ? own.word[0] | own.word[1] | own.word[2] : 0))
			*a = own;
	}
	p->snat.source = p->wire.destination;
	p->snat.source_port = p->wire.destination_port;
	p->snat.protocol = p->wire.protocol;
	return a->word[3] | (family == FAMILY_IPV6 ? a->word[0] | a->word[1] | a->word[2] : 0);
}

static __always_inline __u32 snat_check(const struct packet *p, enum family family)
{
	return check_of(p, &p->snat, &p->wire.source, p->wire.source_port, family);
}

/* --- who else may have the port ----------------------------------------------------------------
 */

static __always_inline void set_socket_tuple(const struct packet *p, struct bpf_sock_tuple *t,
					     enum family family)
{
	if (family == FAMILY_IPV4) {
		t->ipv4.saddr = p->snat.source.word[3];
		t->ipv4.daddr = p->snat.destination.word[3];
		t->ipv4.sport = bpf_htons(p->snat.source_port);
		t->ipv4.dport = bpf_htons(p->snat.destination_port);
	} else {
		__builtin_memcpy(t->ipv6.saddr, &p->snat.source, sizeof(t->ipv6.saddr));
		__builtin_memcpy(t->ipv6.daddr, &p->snat.destination, sizeof(t->ipv6.daddr));
		t->ipv6.sport = bpf_htons(p->snat.source_port);
		t->ipv6.dport = bpf_htons(p->snat.destination_port);
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
	if (p->snat.protocol == PROTOCOL_TCP)
		return is_of_tcp_socket(ctx, &t, size);
	return p->snat.protocol == PROTOCOL_UDP && is_of_udp_socket(ctx, &t, size);
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

/* A flow whose client looks to the backend as this one would. */
static __always_inline bool is_of_client(const struct packet *p, enum family family)
{
	struct tuple key = {};

	set_sorted(&p->snat, &key);
	return find_nat(TIER_MAIN, &key, family) || find_nat(TIER_NEW, &key, family);
}

/* The key has a stack of its own: the deepest calls have 512 bytes in all. */
__noinline int fl_is_of_client4(void)
{
	const struct packet *p = this_packet();

	return p && is_of_client(p, FAMILY_IPV4);
}

__noinline int fl_is_of_client6(void)
{
	const struct packet *p = this_packet();

	return p && is_of_client(p, FAMILY_IPV6);
}

/* --- allocation --------------------------------------------------------------------------------
 */

/* A connection that begins may find the leg that the flow had before. */
static __always_inline void note_request(const struct packet *p, struct snat *snat)
{
	if (p->tcp_flags & TCP_SYN) {
		__builtin_memset(&snat->client_end, 0, sizeof(snat->client_end));
		__builtin_memset(&snat->backend_end, 0, sizeof(snat->backend_end));
	} else if (p->follows_answer)
		snat->client_end.answered = 1;
	note_end(p, &snat->client_end);
}

/*
 * The port was free in both tables, and the insertion guards one of them: on another CPU another
 * flow may have put its leg into the other one. Each looks there after it has put its own, so at
 * least one sees the other's, and takes the next port.
 */
static __always_inline bool is_alone(struct packet *p, enum tier tier, enum family family)
{
	struct snat *other;

	/* What this CPU has put is there for others before it looks. */
	__sync_fetch_and_add(&p->fence, 1);
	other = find_snat(tier == TIER_MAIN ? TIER_NEW : TIER_MAIN, &p->snat, family);
	if (!other || other->check == p->leg.snat.check)
		return true;
	delete_snat(tier, &p->snat, family);
	return false;
}

/*
 * Makes the snat leg of p->snat for the source of the packet. If the main table is full, it is in
 * the other one.
 */
static __always_inline bool put_own_snat(struct packet *p, enum tier tier, enum family family)
{
	long error;

	__builtin_memset(&p->leg, 0, sizeof(p->leg));
	p->leg.snat.check = snat_check(p, family);
	p->leg.snat.seen_seconds = p->now;
	p->leg.snat.client_port = p->wire.source_port;
	note_end(p, &p->leg.snat.client_end);
	put_address(client_of(&p->leg.snat), &p->wire.source, family);
	error = put_snat(tier, &p->snat, &p->leg, BPF_NOEXIST, family);
	if (!error)
		return is_alone(p, tier, family);
	if (tier == TIER_NEW || error == -EEXIST ||
	    put_snat(TIER_NEW, &p->snat, &p->leg, BPF_NOEXIST, family))
		return false;
	return is_alone(p, TIER_NEW, family);
}

/* Deletes the snat leg of p->snat. */
static __always_inline void drop_snat(struct packet *p, enum family family)
{
	delete_snat(TIER_MAIN, &p->snat, family);
	delete_snat(TIER_NEW, &p->snat, family);
}

#endif
