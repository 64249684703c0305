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

/* A listener would not get the replies, which are no first packets. */
static __always_inline bool is_of_tcp_socket(hook_context *ctx, struct bpf_sock_tuple *t,
					     __u32 size)
{
	struct bpf_sock *sk = bpf_skc_lookup_tcp(ctx, t, size, BPF_F_CURRENT_NETNS, 0);
	bool is_listener;

	if (!sk)
		return false;
	is_listener = sk->state == BPF_TCP_LISTEN;
	bpf_sk_release(sk);
	return !is_listener;
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
	struct tuple request, key;

	reverse(&p->snat, &request);
	__builtin_memset(request.pad, 0, sizeof(request.pad));
	key = request;
	if (!ascends(&request))
		reverse(&request, &key);
	return find_nat(TIER_MAIN, &key, family) || find_nat(TIER_NEW, &key, family);
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

/*
 * Whether a half-open flow may lose its port. Not while the backend may answer a datagram: another
 * client would take the answer for its own. To a SYN-ACK it answers by a RST.
 */
static __always_inline bool may_lose_port(const struct packet *p, const struct snat *held,
					  __u32 age)
{
	const struct packet_settings *s = packet_settings();

	return p->wire.protocol == PROTOCOL_TCP || held->backend_end.answered ||
	       (s && age > s->timeout_seconds.udp_new);
}

/* Of the flows that might give up their port: the one that has ended, or begun, first. */
static __always_inline void note_candidate(struct packet *p, const struct snat *held,
					   bool is_in_main)
{
	__u32 age = age_of(p->now, held->seen_seconds);

	if (is_ended(held)) {
		if (!p->ended_port || age > age_of(p->now, p->ended_seen)) {
			p->ended_port = p->snat.destination_port;
			p->ended_seen = held->seen_seconds;
		}
	} else if (!is_in_main && !held->client_end.answered && may_lose_port(p, held, age)) {
		if (!p->half_open_port || age > age_of(p->now, p->half_open_seen)) {
			p->half_open_port = p->snat.destination_port;
			p->half_open_seen = held->seen_seconds;
		}
	}
}

/* Whether the port of p->snat is this flow's, now or from before. */
static __always_inline bool take_snat_port(hook_context *ctx, struct packet *p, enum tier tier,
					   enum family family)
{
	struct snat *held = find_snat(TIER_MAIN, &p->snat, family);
	bool is_in_main = held != NULL;

	if (!held)
		held = find_snat(TIER_NEW, &p->snat, family);
	if (held && held->check == snat_check(p, family)) {
		if (!held->client_end.reserved) {
			note_request(p, held);
			return true;
		}
		drop_snat(p, family);
		held = NULL;
	}
	if (held) {
		note_candidate(p, held, is_in_main);
		return false;
	}
	if (is_of_client(p, family) || is_of_socket(ctx, p, family) ||
	    is_node_port(p, &p->snat.destination, p->snat.destination_port, family))
		return false;
	return put_own_snat(p, tier, family);
}

/* Global functions take scalars; the tier is one. */
__noinline int fl_take_snat4(hook_context *ctx, __u32 port, __u32 tier)
{
	struct packet *p = this_packet();

	if (!p)
		return false;
	p->snat.destination_port = port;
	return tier == TIER_MAIN ? take_snat_port(ctx, p, TIER_MAIN, FAMILY_IPV4)
				 : take_snat_port(ctx, p, TIER_NEW, FAMILY_IPV4);
}

__noinline int fl_take_snat6(hook_context *ctx, __u32 port, __u32 tier)
{
	struct packet *p = this_packet();

	if (!p)
		return false;
	p->snat.destination_port = port;
	return tier == TIER_MAIN ? take_snat_port(ctx, p, TIER_MAIN, FAMILY_IPV6)
				 : take_snat_port(ctx, p, TIER_NEW, FAMILY_IPV6);
}

static __always_inline bool take_port(hook_context *ctx, __u16 port, enum tier tier,
				      enum family family)
{
	return family == FAMILY_IPV4 ? fl_take_snat4(ctx, port, tier)
				     : fl_take_snat6(ctx, port, tier);
}

/*
 * The node may give such a port to a connection of its own to the same backend later, without any
 * program seeing it: the replies would be the flow's. So it is the last resort. SCTP keeps its
 * port.
 */
static __always_inline bool is_local_port(const struct packet_settings *s, const struct packet *p)
{
	__u16 port = p->wire.source_port;

	return p->wire.protocol != PROTOCOL_SCTP && port >= s->local_first && port <= s->local_last;
}

__noinline int fl_drop_snat4(void)
{
	struct packet *p = this_packet();

	if (p)
		drop_snat(p, FAMILY_IPV4);
	return 0;
}

__noinline int fl_drop_snat6(void)
{
	struct packet *p = this_packet();

	if (p)
		drop_snat(p, FAMILY_IPV6);
	return 0;
}

/*
 * A port that was met in the search, instead of waiting for the time of its flow to run out. What
 * follows from the former client finds the leg of another flow, and gets another port.
 */
static __always_inline bool take_from_other(hook_context *ctx, struct packet *p, __u16 port,
					    enum tier tier, enum family family)
{
	if (!port)
		return false;
	p->snat.destination_port = port;
	if (family == FAMILY_IPV4)
		fl_drop_snat4();
	else
		fl_drop_snat6();
	return take_port(ctx, port, tier, family);
}

/*
 * Only if no port is free: the backend may have a connection that has ended in TIME-WAIT, as
 * nf_conntrack drops closing entries early. After that the port of a half-open flow: a flood of
 * them would have all.
 */
static __always_inline bool take_held_port(hook_context *ctx, struct packet *p, enum tier tier,
					   enum family family)
{
	if (take_from_other(ctx, p, p->ended_port, tier, family))
		return true;
	if (!take_from_other(ctx, p, p->half_open_port, tier, family))
		return false;
	count_reason(REASON_HALF_OPEN_EVICTED);
	return true;
}

/*
 * If nine of ten ports are taken, one flow of 30 meets no free one. When its first packet is sent
 * again, the second half of the search is another one.
 */
#define SNAT_PROBES 32

static __always_inline __u16 probed_snat_port(__u64 hash, __u32 probe, __u32 now)
{
	return probed_port(probe < SNAT_PROBES / 2 ? hash : hash + ((__u64)now << 32), probe);
}

/* True: p->snat is the key of the flow's new snat leg. */
static __always_inline bool take_any_port(hook_context *ctx, struct packet *p, enum tier tier,
					  enum family family)
{
	const struct packet_settings *s = packet_settings();
	__u64 hash = hash_tuple(p->secret, &p->wire, family);

	if (!s)
		return false;
	p->ended_port = 0;
	p->half_open_port = 0;
	/* Port 0 of UDP asks for no answer, and stands for none in the nat leg. */
	if (p->wire.source_port && !is_local_port(s, p) &&
	    take_port(ctx, p->wire.source_port, tier, family))
		return true;
	if (p->wire.protocol == PROTOCOL_SCTP)
		return false;
	for (__u32 probe = 0; probe < SNAT_PROBES; probe++) {
		if (take_port(ctx, probed_snat_port(hash, probe, p->now), tier, family))
			return true;
	}
	if (take_held_port(ctx, p, tier, family))
		return true;
	return is_local_port(s, p) && take_port(ctx, p->wire.source_port, tier, family);
}

#endif
