/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Translates between the kernel's context and struct request: byte order, socket kinds, v4-mapped
 * addresses, bypass, return codes. `hook` is the family of the program, known at compile time; a
 * v4-mapped destination in an IPv6 hook is an IPv4 request.
 */
#ifndef FAIRLEAD_CONTEXT_H
#define FAIRLEAD_CONTEXT_H

#include <linux/errno.h>
#include <linux/in.h>

#include "common/config.h"
#include "common/select.h"
#include "socket/maps.h"

/* Return values of a hook. Hooks of received data may only proceed. */
enum outcome { OUTCOME_FAIL = 0, OUTCOME_PROCEED = 1 };

/* SOCK_STREAM and SOCK_DGRAM: <sys/socket.h> cannot be included here. */
enum socket_type { SOCKET_STREAM = 1, SOCKET_DATAGRAM = 2 };

/* Depth down to which a cgroup can be bypassed. src/cli/commands/bypass.ts refuses deeper ones. */
#define CGROUP_LEVELS 64

/*
 * Volatile, so that the compiler keeps each access at a constant offset of the context pointer: the
 * verifier accepts neither a computed pointer nor a load of two words.
 */
#define READ_WORD(from)	      (*(const volatile __u32 *)&(from))
#define WRITE_WORD(to, value) (*(volatile __u32 *)&(to) = (value))

/* PROTOCOL_ANY: not a protocol of Services. */
static __always_inline enum l4_protocol protocol_of(const struct bpf_sock_addr *ctx)
{
	__u32 protocol = ctx->protocol;

	if (READ_WORD(ctx->type) == SOCKET_STREAM &&
	    (protocol == IPPROTO_TCP || protocol == IPPROTO_MPTCP))
		return PROTOCOL_TCP;
	if (READ_WORD(ctx->type) == SOCKET_DATAGRAM && protocol == IPPROTO_UDP)
		return PROTOCOL_UDP;
	return PROTOCOL_ANY;
}

static __always_inline struct bpf_sock *socket_of(const struct bpf_sock_addr *ctx)
{
	return *(struct bpf_sock *const volatile *)&ctx->sk;
}

/* For UDP: connect(AF_UNSPEC) undoes it and calls no hook. */
static __always_inline bool is_connected(const struct bpf_sock *sk)
{
	return READ_WORD(sk->state) == BPF_TCP_ESTABLISHED;
}

/* Whether a connected socket's peer has this address. */
static __always_inline bool is_peer_address(const struct bpf_sock *sk, enum family hook,
					    const struct address *a)
{
	if (hook == FAMILY_IPV4)
		return READ_WORD(sk->dst_ip4) == a->word[3];
	return !((READ_WORD(sk->dst_ip6[0]) ^ a->word[0]) |
		 (READ_WORD(sk->dst_ip6[1]) ^ a->word[1]) |
		 (READ_WORD(sk->dst_ip6[2]) ^ a->word[2]) |
		 (READ_WORD(sk->dst_ip6[3]) ^ a->word[3]));
}

static __always_inline void read_address(const struct bpf_sock_addr *ctx, enum family hook,
					 struct address *a, __u16 *port)
{
	if (hook == FAMILY_IPV4) {
		set_ipv4(a, READ_WORD(ctx->user_ip4));
	} else {
		a->word[0] = READ_WORD(ctx->user_ip6[0]);
		a->word[1] = READ_WORD(ctx->user_ip6[1]);
		a->word[2] = READ_WORD(ctx->user_ip6[2]);
		a->word[3] = READ_WORD(ctx->user_ip6[3]);
	}
	*port = bpf_ntohs((__u16)READ_WORD(ctx->user_port));
}

/* Family of the destination: a v4-mapped one in an IPv6 hook is IPv4. */
static __always_inline enum family family_of(const struct bpf_sock_addr *ctx, enum family hook)
{
	struct address a;
	__u16 port;

	read_address(ctx, hook, &a, &port);
	return hook == FAMILY_IPV4 || is_mapped(&a) ? FAMILY_IPV4 : FAMILY_IPV6;
}

static __always_inline void write_address(struct bpf_sock_addr *ctx, enum family hook,
					  const struct address *a, __u16 port)
{
	if (hook == FAMILY_IPV4) {
		WRITE_WORD(ctx->user_ip4, a->word[3]);
	} else {
		WRITE_WORD(ctx->user_ip6[0], a->word[0]);
		WRITE_WORD(ctx->user_ip6[1], a->word[1]);
		WRITE_WORD(ctx->user_ip6[2], a->word[2]);
		WRITE_WORD(ctx->user_ip6[3], a->word[3]);
	}
	WRITE_WORD(ctx->user_port, bpf_htons(port));
}

/* The address that the socket is bound to; unspecified: none. */
static __always_inline void read_bound(const struct bpf_sock *sk, enum family family,
				       struct address *a)
{
	if (family == FAMILY_IPV4) {
		set_ipv4(a, READ_WORD(sk->src_ip4));
		return;
	}
	a->word[0] = READ_WORD(sk->src_ip6[0]);
	a->word[1] = READ_WORD(sk->src_ip6[1]);
	a->word[2] = READ_WORD(sk->src_ip6[2]);
	a->word[3] = READ_WORD(sk->src_ip6[3]);
}

/* The source of a datagram: of its IP_PKTINFO or IPV6_PKTINFO, else as read_bound(). */
static __always_inline void read_message_source(const struct bpf_sock_addr *ctx, enum family family,
						struct address *a)
{
	if (family == FAMILY_IPV4) {
		set_ipv4(a, READ_WORD(ctx->msg_src_ip4));
		return;
	}
	a->word[0] = READ_WORD(ctx->msg_src_ip6[0]);
	a->word[1] = READ_WORD(ctx->msg_src_ip6[1]);
	a->word[2] = READ_WORD(ctx->msg_src_ip6[2]);
	a->word[3] = READ_WORD(ctx->msg_src_ip6[3]);
}

/* Returns the cookie of the socket's network namespace. */
static __always_inline __u64 read_request(struct bpf_sock_addr *ctx, enum family family,
					  enum l4_protocol protocol, struct request *r)
{
	struct bpf_sock *sk = socket_of(ctx);
	__u64 netns = bpf_get_netns_cookie(ctx);

	resolve_unspecified(&r->address, family);
	r->protocol = protocol;
	r->position = position_of(netns);
	r->may_choose_anew = true;
	set_netns_source(&r->source, netns);
	read_bound(sk, family, &r->bound);
	r->source_port = READ_WORD(sk->src_port);
	r->source_is_loopback = is_loopback(&r->bound, family);
	return netns;
}

/*
 * True if the cgroup of the calling program, or an ancestor, is in fl_cgroup_skip. Levels count
 * from the root of the hierarchy, also inside a cgroup namespace, so the walk starts there.
 */
__noinline int fl_is_opted_out(void)
{
	struct runtime_flags *flags = runtime_flags();

	if (!flags || !flags->skipped_cgroups)
		return false;
	for (int level = 0; level < CGROUP_LEVELS; level++) {
		__u64 id = bpf_get_current_ancestor_cgroup_id(level);

		if (!id)
			return false;
		if (bpf_map_lookup_elem(&fl_cgroup_skip, &id))
			return true;
	}
	return false;
}

static __always_inline enum outcome fail_call(int error)
{
	if (can_set_retval)
		bpf_set_retval(-error);
	return OUTCOME_FAIL;
}

static __always_inline enum outcome outcome_of(const struct bpf_sock_addr *ctx,
					       const struct choice *c)
{
	if (c->verdict == VERDICT_REFUSE)
		return fail_call(ECONNREFUSED);
	if (c->verdict == VERDICT_DROP)
		return fail_call(READ_WORD(ctx->type) == SOCKET_STREAM ? ETIMEDOUT : EPERM);
	return OUTCOME_PROCEED;
}

#endif
