/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of the socket layer only; common/maps.h has those that it shares with packets. */
#ifndef FAIRLEAD_SOCKET_MAPS_H
#define FAIRLEAD_SOCKET_MAPS_H

#include "common/stored.h"
#include "socket/types.h"

#include <bpf/bpf_helpers.h>

/*
 * What a TCP socket was translated to. Written and read by the socket hooks, which delete the entry
 * when the socket is closed. Key: socket cookie. No eviction. Full: the record goes to fl_sock.
 * Preallocated: otherwise half of the cost of a connect() would be memory allocation (ADR 14).
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct socket_peer);
} fl_tcp_sock SEC(".maps");

/* The same for unconnected UDP sockets: the first UDP_PEERS Services that a socket sent to. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct udp_peers);
} fl_udp_sock SEC(".maps");

/*
 * Further flows of unconnected UDP sockets, two entries each: from the Service to its backend and
 * back. Written and read by the socket hooks. Full: LRU eviction; the next datagram of an evicted
 * flow gets a new backend, and until then its replies show the backend's address.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct udp_flow_key);
	__type(value, struct udp_flow);
} fl_udp_flow SEC(".maps");

/*
 * Cgroups whose sockets are not translated. Written by `fairlead bypass`; read by the socket hooks
 * when fl_runtime.skipped_cgroups is not 0. Key: cgroup id = inode number of its directory.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct cgroup_skip);
} fl_cgroup_skip SEC(".maps");

/*
 * Network namespaces of pods that have connected to something that may be a Service, if the agent
 * is to look at them. Key: cookie of the namespace, or NETNS_UNKNOWN. Written by the hooks when a
 * namespace is new, and by the agent, which removes those that have ended. Full: further ones are
 * served as NETNS_UNKNOWN says.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct netns_scope);
} fl_netns SEC(".maps");

/*
 * A cache before it: the cookies of namespaces whose sockets are served, each at the index that
 * plain_index() has for it. Written by the agent. Of two that share an index one has no entry, and
 * fl_netns is asked: a look-up in a hash map costs a connect() four times as much.
 */
#define PLAIN_NETNS_BITS 12
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 << PLAIN_NETNS_BITS);
	__type(key, __u32);
	__type(value, __u64);
} plain_netns SEC(".maps");

/* The cookies of new ones. Full: the agent finds them in fl_netns, a little later. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} new_netns SEC(".maps");

#endif
