/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which network namespaces of pods are served as packets, although the hooks see their sockets:
 * those that redirect connections themselves, as a service mesh does. Its proxy asks for the
 * original destination (SO_ORIGINAL_DST), which must be the Service. The agent looks at each
 * namespace and writes the answer; a namespace that is new here asks for it.
 */
#ifndef FAIRLEAD_SCOPE_H
#define FAIRLEAD_SCOPE_H

#include "socket/context.h"

/* Settings of --socket-scope, as in common/config.h. */
enum socket_scope { SCOPE_OF_PODS = 0, SCOPE_OF_HOST = 1, SCOPE_OF_AUTO = 2 };
const volatile __u8 socket_scope = SCOPE_OF_PODS;

/* Tells the agent that it is to look at the namespace, once: an entry that exists is no news. */
static __always_inline void ask_for_scope(__u64 netns)
{
	struct netns_scope asked = {.tgid = bpf_get_current_pid_tgid() >> 32};

	if (bpf_map_update_elem(&fl_netns, &netns, &asked, BPF_NOEXIST) == 0)
		bpf_ringbuf_output(&new_netns, &netns, sizeof(netns), 0);
}

/*
 * Whether sockets of this namespace are left to packets; NETNS_UNKNOWN: what holds for all that
 * have no answer. Global, see backend.h.
 */
__noinline int fl_is_as_packets(__u64 netns)
{
	struct netns_scope *scope = bpf_map_lookup_elem(&fl_netns, &netns);
	__u64 others = NETNS_UNKNOWN;

	if (scope && scope->state != SCOPE_ASKED)
		return scope->state == SCOPE_PACKETS;
	if (!scope && netns != NETNS_UNKNOWN)
		ask_for_scope(netns);
	scope = bpf_map_lookup_elem(&fl_netns, &others);
	return scope && scope->state == SCOPE_PACKETS;
}

static __always_inline __u32 plain_index(__u64 netns)
{
	return netns * 0x9e3779b97f4a7c15ull >> (64 - PLAIN_NETNS_BITS);
}

static __always_inline bool is_plain(__u64 netns)
{
	__u32 index = plain_index(netns);
	__u64 *plain = bpf_map_lookup_elem(&plain_netns, &index);

	return plain && *(const volatile __u64 *)plain == netns;
}

/* Only of what may be for a Service: nothing else pays for the look-up. */
static __always_inline bool is_as_packets(const struct request *r, enum family family, __u64 netns)
{
	if (socket_scope == SCOPE_OF_PODS || r->position != POSITION_POD)
		return false;
	if (socket_scope == SCOPE_OF_AUTO && is_plain(netns))
		return false;
	if (!may_be_frontend(&r->address, family) &&
	    !(has_node_ports() && may_be_node_port(r->port)))
		return false;
	return fl_is_as_packets(socket_scope == SCOPE_OF_HOST ? NETNS_UNKNOWN : netns);
}

#endif
