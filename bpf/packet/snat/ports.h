/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which ports a flow tries if it cannot have its client's: of the range in the settings those that
 * are not of the node's own connections.
 */
#ifndef FAIRLEAD_PORTS_H
#define FAIRLEAD_PORTS_H

#include "packet/packet.h"

/* Ports that are tried after the client's own. */
#define PORT_PROBES 8

/* How many ports of the range are below those of the node's own connections, and above. */
struct port_counts {
	__u32 below, above;
};

static __always_inline struct port_counts count_ports(const struct packet_settings *s)
{
	__u32 first = s->snat_first, end = s->snat_last + 1, above = s->local_last + 1;
	__u32 below = s->local_first < end ? s->local_first : end;
	struct port_counts counts;

	if (above < first)
		above = first;
	counts.below = below > first ? below - first : 0;
	counts.above = end > above ? end - above : 0;
	return counts;
}

/*
 * A port of the range of the settings, but for the node's own. If these are all of the range, that
 * is all there is.
 */
__noinline int fl_port_at(__u32 at)
{
	const struct packet_settings *s = packet_settings();
	struct port_counts counts;

	if (!s)
		return 0;
	counts = count_ports(s);
	if (!(counts.below + counts.above))
		return s->snat_first + at % ((__u16)(s->snat_last - s->snat_first) + 1);
	at %= counts.below + counts.above;
	return at < counts.below ? s->snat_first + at : s->snat_last - (at - counts.below);
}

/* The nth port to try: the same flow finds the same ports again. */
static __always_inline __u16 probed_port(__u64 hash, __u32 probe)
{
	return fl_port_at((__u32)(hash >> 32) + probe * probe * 2654435761u);
}

#endif
