/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keeps processes of the node from binding a NodePort: the Service gets the connections to it, and
 * the process would wait for them in vain. Looks at bind() calls that name a port: a socket that
 * asks for any port gets one that the kernel chooses. Sockets that are bound already stay as they
 * are.
 */
#ifndef FAIRLEAD_BIND_H
#define FAIRLEAD_BIND_H

#include "socket/context.h"

/* A setting, as in common/config.h. 1: processes of the node cannot bind NodePorts. */
const volatile __u8 protects_node_ports = 0;

/*
 * Whether the address answers the NodePort. Unspecified: every address of the node, of which some
 * does. Not if the process may be an endpoint of the Service: one of the node's own network
 * namespace that listens on the same number.
 */
static __always_inline bool is_protected(const struct request *r, enum family family)
{
	const struct frontend *fe;
	__u32 id;

	if (!is_unspecified(&r->address, family) && !answers_node_ports(r, family))
		return false;
	id = frontend_at(r, MATCH_ANY_NODE_ADDRESS, family);
	fe = id ? frontend_with(id) : NULL;
	return fe && !fe->flags.endpoint_port;
}

/* An IPv6 socket that is bound to no address takes the port of both families. */
static __always_inline bool takes_node_port(const struct request *r, enum family hook)
{
	if (hook == FAMILY_IPV4 || is_mapped(&r->address))
		return is_protected(r, FAMILY_IPV4);
	if (is_protected(r, FAMILY_IPV6))
		return true;
	return is_unspecified(&r->address, FAMILY_IPV6) && is_protected(r, FAMILY_IPV4);
}

/* Pods have ports of their own, and without cookies they cannot be told from the node. */
static __always_inline bool may_bind(struct bpf_sock_addr *ctx, enum family hook)
{
	struct request r = {.protocol = protocol_of(ctx), .position = POSITION_HOST};
	struct runtime_flags *flags = runtime_flags();

	if (!protects_node_ports || !flags || !flags->node_ports || r.protocol == PROTOCOL_ANY)
		return true;
	if (position_of(bpf_get_netns_cookie(ctx)) != POSITION_HOST)
		return true;
	read_address(ctx, hook, &r.address, &r.port);
	return !r.port || fl_is_opted_out() || !takes_node_port(&r, hook);
}

#endif
