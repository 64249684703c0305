/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Datagrams that this node sends from the number of a NodePort, its own or of pods that netfilter
 * has masqueraded: what comes back would be taken for requests to the NodePort. A snat leg whose
 * client is the node says that it is not. TCP needs none: only a SYN begins a connection there.
 */
#ifndef FAIRLEAD_OWN_H
#define FAIRLEAD_OWN_H

#include "packet/snat/snat.h"

/* A translated reply that leaves by a second device has a flow. */
static __always_inline int note_own(struct packet *p, enum family family)
{
	struct snat *held;

	if (!is_node_port(p, &p->wire.source, p->wire.source_port, family))
		return 0;
	reverse(&p->wire, &p->snat);
	if (find_flow(TIER_MAIN, &p->snat, family) || find_flow(TIER_NEW, &p->snat, family))
		return 0;
	set_now(p);
	held = find_snat_of(p, family);
	if (held) {
		if (held->check == snat_check(p, family))
			held->seen_seconds = p->now;
		return 0;
	}
	set_mark(p, MARKS_INGRESS, &p->wire.source, SNAT_PORTS, family);
	put_own_snat(p, TIER_NEW, family);
	return 0;
}

__noinline int fl_note_own4(void)
{
	struct packet *p = this_packet();

	return p ? note_own(p, FAMILY_IPV4) : 0;
}

__noinline int fl_note_own6(void)
{
	struct packet *p = this_packet();

	return p ? note_own(p, FAMILY_IPV6) : 0;
}

#endif
