/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every map. Above each: who writes it, who reads it, key order, capacity, eviction. "Agent" is the
 * user space process; it may resize what says so before load. Values are in types.h.
 */
#ifndef FAIRLEAD_MAPS_H
#define FAIRLEAD_MAPS_H

#include "common/types.h"

#include <bpf/bpf_helpers.h>

/*
 * Frontends. Written by the agent only, one replace per change; read by every socket hook.
 * Key: address in network order, port in host order. Resized by the agent; full: the agent reports
 * the Service as failed. Never evicts. NO_PREALLOC: empty space costs only buckets.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct frontend4_key);
	__type(value, struct frontend);
} fl_frontend4 SEC(".maps");

/* As fl_frontend4, for IPv6. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct frontend6_key);
	__type(value, struct frontend);
} fl_frontend6 SEC(".maps");

/*
 * Slots of all sets. Written by the agent through shared memory, before a frontend refers to them
 * and never while one does; read by the socket hooks. Key: block number. Resized by the agent.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 131072);
	__type(key, __u32);
	__type(value, struct slot_block);
} fl_slot_block SEC(".maps");

/*
 * Backends. Written by the agent through shared memory; after publication only `state` changes.
 * Read by the socket hooks. Key: backend id; one id space across both families, 0 is never used.
 * Resized by the agent, together with fl_backend6 and fl_be_stat.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 262144);
	__type(key, __u32);
	__type(value, struct backend4);
} fl_backend4 SEC(".maps");

/* As fl_backend4, for IPv6. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 262144);
	__type(key, __u32);
	__type(value, struct backend6);
} fl_backend6 SEC(".maps");

/*
 * Names of the service ids. Written by the agent; read by the agent after a restart and by people.
 * Key: service_id. Never evicts.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct service_name);
} fl_service SEC(".maps");

/* Counters of frontends. Written by the socket hooks (atomic adds); the agent reads. Key:
 * frontend_id. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 262144);
	__type(key, __u32);
	__type(value, struct frontend_stat);
} fl_fe_stat SEC(".maps");

/*
 * Counters of backends. Written by the socket hooks (atomic adds); the agent reads, and zeroes an
 * element when it gives the id to another backend. Key: backend id.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 262144);
	__type(key, __u32);
	__type(value, struct backend_stat);
} fl_be_stat SEC(".maps");

/* What became of socket calls. Written by the socket hooks; the agent sums CPUs. Key: enum reason.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS);
	__type(key, __u32);
	__type(value, __u64);
} fl_reason SEC(".maps");

/*
 * Session affinity. Written and read by the socket hooks. Full: the entry longest unused goes, and
 * its client is balanced anew.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct affinity_key);
	__type(value, struct affinity);
} fl_affinity SEC(".maps");

/*
 * What a connected socket (TCP, connected UDP) was translated to. Written and read by the socket
 * hooks; lives and dies with the socket, so there is no capacity and no eviction.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct socket_peer);
} fl_sock SEC(".maps");

/* The same for unconnected UDP sockets: the first UDP_PEERS Services a socket wrote to. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct udp_peers);
} fl_udp_sock SEC(".maps");

/*
 * Further flows of unconnected UDP sockets, two entries each: from the Service to its backend and
 * back. Written and read by the socket hooks. Full: LRU eviction; the next datagram of an evicted
 * flow is balanced anew, and until then its replies show the backend's address.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct udp_flow_key);
	__type(value, struct udp_flow);
} fl_udp_flow SEC(".maps");

/*
 * Addresses of this node that answer NodePorts. Written by the agent; read by the socket hooks when
 * fl_runtime.node_ports is not 0. Key: address in network order; 127.0.0.1 stands for 127.0.0.0/8.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, struct node_address4_key);
	__type(value, struct node_address);
} fl_node_addr4 SEC(".maps");

/* As fl_node_addr4, for IPv6. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, struct node_address6_key);
	__type(value, struct node_address);
} fl_node_addr6 SEC(".maps");

/*
 * Cgroups whose sockets are left alone. Written by `fairlead bypass`; read by the socket hooks when
 * fl_runtime.skipped_cgroups is not 0. Key: cgroup id = inode number of its directory.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct cgroup_skip);
} fl_cgroup_skip SEC(".maps");

/* Runtime flags, one element. Written through shared memory: skipped_cgroups by `fairlead bypass`,
 * the rest by the agent. Read by the socket hooks.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct runtime_flags);
} fl_runtime SEC(".maps");

/* Its key. Not on the stack, where it would make otherwise equal states differ for the verifier. */
const __u32 runtime_key = 0;

static __always_inline struct runtime_flags *runtime_flags(void)
{
	return bpf_map_lookup_elem(&fl_runtime, &runtime_key);
}

#endif
