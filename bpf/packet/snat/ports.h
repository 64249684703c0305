/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which ports a connection tries if it cannot have its client's: first those of the range in the
 * settings that are not of the node's own connections, then all of the range. No reserved ones.
 */
#ifndef FAIRLEAD_PORTS_H
#define FAIRLEAD_PORTS_H

#include "packet/packet.h"

/* Ports that are tried after the client's own, see take_any_client_port(). */
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

/* A port of the range of the settings. */
__noinline int fl_port_at(__u32 at)
{
	const struct packet_settings *s = packet_settings();

	return s ? s->snat_first + at % ((__u16)(s->snat_last - s->snat_first) + 1) : 0;
}

/* The same, but none of the node's own. If these are all of the range, one of them. */
__noinline int fl_port_beside(__u32 at)
{
	const struct packet_settings *s = packet_settings();
	struct port_counts counts;

	if (!s)
		return 0;
	counts = count_ports(s);
	if (!(counts.below + counts.above))
		return fl_port_at(at);
	at %= counts.below + counts.above;
	return at < counts.below ? s->snat_first + at : s->snat_last - (at - counts.below);
}

/* The nth try: the same connection finds the same ports again. */
static __always_inline __u32 nth_try(__u64 hash, __u32 n)
{
	return (__u32)(hash >> 32) + n * n * 2654435761u;
}

static __always_inline __u16 probed_port(__u64 hash, __u32 probe)
{
	return fl_port_beside(nth_try(hash, probe));
}

/* The administrator has reserved it: net.ipv4.ip_local_reserved_ports. */
static __always_inline bool is_kept_port(__u16 port)
{
	__u32 at = port / 64;
	const __u64 *word = bpf_map_lookup_elem(&fl_kept_port, &at);

	return word && *word >> port % 64 & 1;
}

#endif
