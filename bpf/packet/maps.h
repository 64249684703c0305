/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps of the packet programs, as common/maps.h has those of all layers: the same comment above
 * each. Values are in types.h.
 */
#ifndef FAIRLEAD_PACKET_MAPS_H
#define FAIRLEAD_PACKET_MAPS_H

#include "common/maps.h"
#include "packet/geneve/secret.h"
#include "packet/types.h"

#include <bpf/bpf_helpers.h>

/* Lines of fl_mark for each hook. */
#define MARK_LINES 1024

/* After them: its first byte is the epoch, 0 or 1. Written by the agent. */
#define EPOCH_LINE (2 * MARK_LINES)

/*
 * Addresses that connections have had, by their hash: a packet to or from any other needs no
 * look-up. A mark is one more than the epoch in which a connection began, or was met by the sweep.
 * Set by the packet programs and the sweep. Marks of the former epoch are cleared by the agent
 * (src/engines/bpf/flows/sweep/marks.ts); one too many only costs look-ups. Key: line, first
 * those of destinations at ingress, then those of backends at egress.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, EPOCH_LINE + 1);
	__type(key, __u32);
	__type(value, struct mark_line);
} fl_mark SEC(".maps");

/*
 * Ports of fragmented datagrams, both families. Written and read by the packet programs. Full: LRU
 * eviction; later fragments of an evicted datagram are as unknown ones.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct fragment_key);
	__type(value, struct fragment_ports);
} fl_fragment SEC(".maps");

/* Devices that programs are attached to. Written by the agent; read by the packet programs. Key:
 * ifindex. Full: the agent reports the device.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct device);
} fl_device SEC(".maps");

/*
 * Addresses of Services whose echo requests are answered. Written by the agent, if answer_ping is
 * set; read by the packet programs. Resized by the agent. Full: the addresses that do not fit do
 * not answer.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 131072);
	__type(key, struct ping_key);
	__type(value, __u32);
} fl_ping SEC(".maps");

/*
 * Connected UDP sockets whose backend is gone, and which the agent may not connect again or
 * destroy: what becomes of their datagrams. Written by the agent; read by the packet programs when
 * fl_runtime.refused_sockets is not 0. Key: socket cookie. Value: enum stale_datagrams. Full: the
 * agent leaves the others alone.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, __u32);
} fl_refused_sock SEC(".maps");

/*
 * Other nodes that take requests in Geneve: each under all its addresses. Written by the agent,
 * which leaves path_mtu to the packet programs; read by them. Full: Services get SNAT there.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct peer_key);
	__type(value, struct peer);
} fl_peer SEC(".maps");

/*
 * Keys of the cookies of requests in Geneve; no element: there are none. Written by the agent; read
 * by the packet programs. A hash, because an element of that is replaced at once.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cookies);
} fl_cookie SEC(".maps");

/*
 * MTUs of the ways to real servers that requests were sent to, as ICMP errors have told them: the
 * same as struct peer has for nodes. Written and read by the packet programs. Key: the server's
 * address. Full: LRU eviction; the next request, and the next error, tell it again.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct peer_key);
	__type(value, struct path_mtu);
} fl_path_mtu SEC(".maps");

/*
 * The node that a backend runs on. Written by the agent through shared memory, before the backend
 * is published; read for connections of direct return alone. Key: backend id. Resized with
 * fl_backend4.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 262144);
	__type(key, __u32);
	__type(value, struct backend_node);
} fl_backend_node SEC(".maps");

/*
 * Ids of the backends of this node, for requests that come in Geneve. Written by the agent, after
 * the backend; read by the packet programs. Full: the requests to those that do not fit are
 * dropped.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct local_backend_key);
	__type(value, struct local_backend);
} fl_local_be SEC(".maps");

/*
 * Ports that no masqueraded connection gets: bit `port % 64` of word `port / 64`. Written by the
 * agent through shared memory; read by the packet programs.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} fl_kept_port SEC(".maps");

/* Settings, one element. Written by the agent; read by the packet programs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet_settings);
} fl_packet SEC(".maps");

static __always_inline struct packet_settings *packet_settings(void)
{
	return bpf_map_lookup_elem(&fl_packet, &runtime_key);
}

/*
 * What becomes of connections that begin while records are carried into another table. Written by
 * the agent; read by the packet programs. Each table has its own. One element.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct table_phase);
} fl_phase SEC(".maps");

static __always_inline const struct table_phase *table_phase(void)
{
	return bpf_map_lookup_elem(&fl_phase, &runtime_key);
}

/*
 * The programs that use the table that takes the place of this one. Written by the agent; called by
 * the packet programs, see conn/pass_on.h. Each table has its own. Key: enum next_program.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u32);
} fl_next SEC(".maps");

/*
 * Packets and bytes of connections that have ended. Written by the sweep and by the packet programs
 * (atomic adds); read by the agent, which adds those of living ones. Key: frontend id, as
 * fl_fe_stat.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 262144);
	__type(key, __u32);
	__type(value, struct traffic);
} fl_traffic SEC(".maps");

/* How many answers each CPU may still send. Written and read by the packet programs. One element.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct answer_budget);
} fl_answers SEC(".maps");

#endif
