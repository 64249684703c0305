/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fragments. Only the first one of a datagram has ports: it stores them for those that follow, at
 * each hook under the addresses that it sees there. A later fragment that comes first is unknown.
 */
#ifndef FAIRLEAD_FRAGMENT_H
#define FAIRLEAD_FRAGMENT_H

#include "common/count.h"
#include "packet/packet.h"

static __always_inline struct fragment_key fragment_key_of(const struct packet *p)
{
	struct fragment_key key = {.id = p->fragment_id, .protocol = p->wire.protocol};

	__builtin_memcpy(key.source, p->wire.source.byte, sizeof(key.source));
	__builtin_memcpy(key.destination, p->wire.destination.byte, sizeof(key.destination));
	return key;
}

/* Of the key, with the ports of the packet, and of these. */
static __always_inline __u32 fragment_check(const struct packet *p)
{
	return mix(hash_tuple(p->env.secret, &p->wire, FAMILY_IPV6), p->fragment_id);
}

static __always_inline bool know_ports(struct packet *p)
{
	struct fragment_key key = fragment_key_of(p);
	struct fragment_ports ports = {
		.source_port = p->wire.source_port,
		.destination_port = p->wire.destination_port,
	};
	struct fragment_ports *found;

	if (!p->is_later_fragment) {
		ports.check = fragment_check(p);
		bpf_map_update_elem(&fl_fragment, &key, &ports, BPF_ANY);
		return true;
	}
	found = bpf_map_lookup_elem(&fl_fragment, &key);
	if (!found)
		return false;
	ports = *found;
	p->wire.source_port = ports.source_port;
	p->wire.destination_port = ports.destination_port;
	return ports.check == fragment_check(p);
}

/* False: a later fragment whose ports are unknown. */
__noinline int fl_know_ports(void)
{
	struct packet *p = this_packet();

	return p ? know_ports(p) : false;
}

/*
 * A later fragment of no connection. An address that answers on every port is no station's: what
 * goes to it is dropped here. Any other packet may be meant for the node, or for someone else.
 */
static __always_inline int on_stray(struct packet *p, enum family family)
{
	struct request *r = &p->request;

	__builtin_memset(r, 0, sizeof(*r));
	r->address = p->wire.destination;
	if (!may_be_frontend(&r->address, family) || !frontend_at(r, MATCH_ANY_OTHER_PORT, family))
		return LEAVE;
	count_reason(REASON_DROPPED_FRAGMENT);
	return TC_ACT_SHOT;
}

__noinline int fl_stray4(void)
{
	struct packet *p = this_packet();

	return p ? on_stray(p, FAMILY_IPV4) : LEAVE;
}

__noinline int fl_stray6(void)
{
	struct packet *p = this_packet();

	return p ? on_stray(p, FAMILY_IPV6) : LEAVE;
}

#endif
