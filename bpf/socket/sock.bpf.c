/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The socket layer: a connect() or sendmsg() to a Service goes to a backend, while the peer that
 * the socket reports stays the Service. select.h decides, connected.h and udp.h keep the records,
 * bind.h refuses to bind NodePorts.
 */
#include "common/count.h"
#include "socket/bind.h"
#include "socket/connected.h"
#include "socket/context.h"
#include "socket/scope/scope.h"
#include "socket/udp.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline enum outcome connect_as(struct bpf_sock_addr *ctx, enum family hook,
					       enum family family)
{
	enum l4_protocol protocol = protocol_of(ctx);
	struct bpf_sock *sk = socket_of(ctx);
	struct request r = {};
	struct choice c = {};

	if (protocol == PROTOCOL_ANY)
		return OUTCOME_PROCEED;
	if (fl_is_opted_out()) {
		c.reason = REASON_SKIPPED_CGROUP;
	} else {
		read_address(ctx, hook, &r.address, &r.port);
		if (is_as_packets(&r, family, read_request(ctx, family, protocol, &r)))
			c.reason = REASON_SKIPPED_NETNS;
		else
			select_backend(&r, family, &c);
	}
	count_choice(&c);
	if (c.verdict == VERDICT_TRANSLATE) {
		note_choice(&r, family, &c);
		record_connected(ctx, sk, &r, &c);
		note_sent(&r, &c, family);
		write_address(ctx, hook, &c.address, c.port);
	} else if (c.verdict == VERDICT_LEAVE || !is_connected(sk)) {
		/* A connect() that fails does not change a connected UDP socket. */
		forget_connected(ctx, sk);
	}
	return outcome_of(ctx, &c);
}

/* A datagram of an IPv6 socket to a v4-mapped address comes through the IPv4 hook. */
static __always_inline enum outcome on_sendmsg(struct bpf_sock_addr *ctx, enum family family)
{
	enum l4_protocol protocol = protocol_of(ctx);
	struct bpf_sock *sk = socket_of(ctx);
	struct request r = {};
	struct choice c = {};

	if (protocol != PROTOCOL_UDP)
		return OUTCOME_PROCEED;
	if (fl_is_opted_out()) {
		count_reason(REASON_SKIPPED_CGROUP);
		return OUTCOME_PROCEED;
	}
	read_address(ctx, family, &r.address, &r.port);
	if (is_as_packets(&r, family, read_request(ctx, family, protocol, &r))) {
		count_reason(REASON_SKIPPED_NETNS);
		return OUTCOME_PROCEED;
	}
	read_message_source(ctx, family, &r.bound);
	find_flow(ctx, sk, &r);
	select_backend(&r, family, &c);
	count_choice(&c);
	if (c.verdict == VERDICT_TRANSLATE) {
		note_choice(&r, family, &c);
		if (!c.is_kept && !is_connected(sk))
			forget_connected(ctx,
					 sk); /* what connect(AF_UNSPEC), which has no hook, left */
		if (!c.is_kept)
			record_udp(ctx, sk, &r, &c);
		note_sent(&r, &c, family);
		write_address(ctx, family, &c.address, c.port);
	}
	return outcome_of(ctx, &c);
}

static __always_inline enum outcome on_connect(struct bpf_sock_addr *ctx, enum family hook)
{
	return family_of(ctx, hook) == FAMILY_IPV4 ? connect_as(ctx, hook, FAMILY_IPV4)
						   : connect_as(ctx, hook, FAMILY_IPV6);
}

/* Flows of before connect() count only for datagrams that came before it. */
static __always_inline bool find_service(struct bpf_sock_addr *ctx, enum family hook,
					 struct address *from, __u16 *port)
{
	struct bpf_sock *sk = socket_of(ctx);

	if (is_connected(sk)) {
		if (find_connected_service(ctx, sk, from, port))
			return true;
		if (is_peer_address(sk, hook, from))
			return false;
	}
	return find_udp_service(ctx, sk, from, port);
}

static __always_inline enum outcome on_recvmsg(struct bpf_sock_addr *ctx, enum family hook)
{
	struct address from;
	__u16 port;

	read_address(ctx, hook, &from, &port);
	if (find_service(ctx, hook, &from, &port)) {
		write_address(ctx, hook, &from, port);
		count_reason(REASON_REVERSE_TRANSLATED);
	}
	return OUTCOME_PROCEED;
}

static __always_inline enum outcome on_getpeername(struct bpf_sock_addr *ctx, enum family hook)
{
	struct bpf_sock *sk = socket_of(ctx);
	struct address peer;
	__u16 port;

	read_address(ctx, hook, &peer, &port);
	if (find_connected_service(ctx, sk, &peer, &port)) {
		write_address(ctx, hook, &peer, port);
		count_reason(REASON_REVERSE_TRANSLATED);
	}
	return OUTCOME_PROCEED;
}

static __always_inline enum outcome on_bind(struct bpf_sock_addr *ctx, enum family hook)
{
	if (may_bind(ctx, hook))
		return OUTCOME_PROCEED;
	count_reason(REASON_REFUSED_BIND);
	return fail_call(EADDRINUSE);
}

/* For both families: the same body, compiled for each. */
#define BOTH_FAMILIES(hook)                                                   \
	SEC("cgroup/" #hook "4") int fl_##hook##4(struct bpf_sock_addr * ctx) \
	{                                                                     \
		return on_##hook(ctx, FAMILY_IPV4);                           \
	}                                                                     \
	SEC("cgroup/" #hook "6") int fl_##hook##6(struct bpf_sock_addr * ctx) \
	{                                                                     \
		return on_##hook(ctx, FAMILY_IPV6);                           \
	}

BOTH_FAMILIES(connect)
BOTH_FAMILIES(sendmsg)
BOTH_FAMILIES(recvmsg)
BOTH_FAMILIES(getpeername)
BOTH_FAMILIES(bind)

SEC("cgroup/sock_release") int fl_sock_release(struct bpf_sock *sk)
{
	release_connected(sk);
	if (sk->protocol == IPPROTO_UDP)
		release_udp(sk);
	return OUTCOME_PROCEED;
}
