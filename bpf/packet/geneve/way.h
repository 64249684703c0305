/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The way to the node of a backend, or to a real server: whether it takes requests, the route, the
 * MTU. */
#ifndef FAIRLEAD_GENEVE_WAY_H
#define FAIRLEAD_GENEVE_WAY_H

#include "packet/geneve/cookie.h"
#include "packet/ipip/wire.h"

#define AF_INET	    2
#define AF_INET6    10

#define DEFAULT_MTU 1500
/* As ip_rt_mtu_expires: what an ICMP error has told is then forgotten. */
#define PATH_MTU_SECONDS 600
/* Of a request for the MTU of the route, which the kernel leaves as it is if it does not know the
 * neighbour. */
#define ASK_FOR_MTU 1

/* As net.ipv4.route.min_pmtu and RFC 8200: no host sends less when it is told so. */
#define LEAST_MTU4 552
#define LEAST_MTU6 1280

/* In the place of path_mtu: an ICMP error has said so. */
#define PORT_IS_CLOSED 1

static __always_inline bool is_zero(const struct address *a)
{
	return !(a->word[0] | a->word[1] | a->word[2] | a->word[3]);
}

/* Of this node, as others know it. False: it has none of the family. */
static __always_inline bool own_address(enum family family, struct address *own)
{
	const struct packet_settings *s = packet_settings();

	if (!s)
		return false;
	if (family == FAMILY_IPV4)
		set_ipv4(own, *(const __be32 *)as_address(s->node_address4));
	else
		*own = *as_address(s->node_address6);
	return family == FAMILY_IPV4 ? own->word[3] != 0 : !is_zero(own);
}

static __always_inline struct peer *peer_at(const struct address *node)
{
	return bpf_map_lookup_elem(&fl_peer, node);
}

static __always_inline __u16 unless_forgotten(const struct packet *p, __u32 told_at, __u16 mtu)
{
	return (__s32)(p->now - told_at) < PATH_MTU_SECONDS ? mtu : 0;
}

/* Of a node that takes requests no more: the port that it had. */
static __always_inline __u16 port_of(const struct peer *peer)
{
	struct runtime_flags *flags = runtime_flags();

	if (peer && peer->port)
		return peer->port;
	return flags ? flags->direct_port : 0;
}

/* The client of p->conn may have been answered: with SNAT the backend would not know it. */
static __always_inline bool is_bound(const struct packet *p)
{
	return p->conn.conn.life.state != CONN_NEW || !is_first(p);
}

/*
 * Of a connection in Geneve. A node that takes requests no more may still take those of connections
 * that exist, unless it says that its port is closed. That alone ends nothing: anybody can say so.
 */
static __always_inline bool find_peer(struct packet *p)
{
	struct peer *peer;
	__u16 told;

	if (is_zero(&p->way.node))
		return false;
	peer = peer_at(&p->way.node);
	if (!peer)
		return false;
	told = unless_forgotten(p, peer->path_mtu_at, peer->path_mtu);
	if (told == PORT_IS_CLOSED ? !peer->port || !is_bound(p) : !peer->port && !is_bound(p))
		return false;
	p->way.port = port_of(peer);
	p->way.mtu = told == PORT_IS_CLOSED ? 0 : told;
	return true;
}

/* Of a connection in IPIP: the backend p->backend itself. An ICMP error may tell the MTU of its
 * way. */
static __always_inline bool find_real_server(struct packet *p)
{
	struct path_mtu *path, none = {};

	if (!is_same_address(&p->way.node, &p->backend))
		return false;
	path = bpf_map_lookup_elem(&fl_path_mtu, &p->way.node);
	if (!path)
		bpf_map_update_elem(&fl_path_mtu, &p->way.node, &none, BPF_NOEXIST);
	p->way.mtu = path ? unless_forgotten(p, path->told_at, path->mtu) : 0;
	return true;
}

/* Sets p->way, but for the route, of the backend of p->conn. False: it is here, or takes neither
 * Geneve nor IPIP. */
__noinline int fl_find_node(void)
{
	struct packet *p = this_packet();
	struct backend_node *node;

	if (!p)
		return false;
	node = bpf_map_lookup_elem(&fl_backend_node, &p->conn.conn.backend_id);
	if (!node)
		return false;
	p->way.node = *as_address(node->address);
	if (!(p->conn.conn.life.flags.ipip ? find_real_server(p) : find_peer(p)))
		return false;
	if (!own_address(family_of(&p->way.node), &p->way.source))
		return false;
	if (!p->conn.conn.life.flags.ipip)
		set_cookie(p);
	return true;
}

static __always_inline void set_fib(struct __sk_buff *skb, struct packet *p, enum family outer)
{
	struct bpf_fib_lookup *fib = &p->way.fib;

	__builtin_memset(fib, 0, sizeof(*fib));
	fib->ifindex = skb->ifindex;
	fib->l4_protocol = p->conn.conn.life.flags.ipip ? ipip_protocol(outer) : IPPROTO_UDP;
	fib->tot_len = ASK_FOR_MTU;
	if (outer == FAMILY_IPV4) {
		fib->family = AF_INET;
		fib->ipv4_src = p->way.source.word[3];
		fib->ipv4_dst = p->way.node.word[3];
	} else {
		fib->family = AF_INET6;
		__builtin_memcpy(fib->ipv6_src, &p->way.source, sizeof(fib->ipv6_src));
		__builtin_memcpy(fib->ipv6_dst, &p->way.node, sizeof(fib->ipv6_dst));
	}
}

/* Of the packet p->wire, by what it travels in. */
static __always_inline __u32 overhead_of_way(const struct packet *p, enum family inner)
{
	return p->conn.conn.life.flags.ipip ? ipip_overhead(inner) : overhead_by(&p->way, inner);
}

/*
 * What an ICMP error has told, as far as clients can obey: none sends less than the least, so that
 * who forges an error could stop all that is longer.
 */
static __always_inline __u32 told_mtu_of_way(const struct packet *p)
{
	enum family inner = family_of(&p->wire.destination);
	__u32 least = inner == FAMILY_IPV4 ? LEAST_MTU4 : LEAST_MTU6;

	least += overhead_of_way(p, inner);
	return p->way.mtu < least ? least : p->way.mtu;
}

/* The least of what the route, the settings and the path say. */
static __always_inline __u32 mtu_of_way(const struct packet *p)
{
	struct runtime_flags *flags = runtime_flags();
	__u32 mtu = p->way.fib.tot_len, told;

	if (mtu == ASK_FOR_MTU)
		mtu = flags && flags->direct_mtu ? flags->direct_mtu : DEFAULT_MTU;
	if (!p->way.mtu)
		return mtu;
	told = told_mtu_of_way(p);
	return told < mtu ? told : mtu;
}

/* Sets the rest of p->way. An unknown neighbour is asked for when the packet is sent. */
static __always_inline bool find_way(struct __sk_buff *skb, struct packet *p)
{
	long result;

	set_fib(skb, p, family_of(&p->way.node));
	result = bpf_fib_lookup(skb, &p->way.fib, sizeof(p->way.fib), 0);
	if (result != BPF_FIB_LKUP_RET_SUCCESS && result != BPF_FIB_LKUP_RET_NO_NEIGH &&
	    result != BPF_FIB_LKUP_RET_FRAG_NEEDED)
		return false;
	p->way.mtu = mtu_of_way(p);
	return true;
}

/* False: the packet cannot go in a tunnel. A function of its own, because both begin and go on. */
__noinline int fl_find_way(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? find_way(skb, p) : false;
}

#endif
