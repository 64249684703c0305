/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps that all layers share: sockets and packets. Maps of only one layer are declared in its
 * own folder (socket/maps.h), because libbpf creates every map that an object declares. Above each:
 * writer, readers, key order, capacity, eviction. "Agent" is the user space process; it may resize
 * maps before load where noted. Values are in types.h.
 */
#ifndef FAIRLEAD_MAPS_H
#define FAIRLEAD_MAPS_H

#include "common/live.h"
#include "common/types.h"

#include <bpf/bpf_helpers.h>

/*
 * Ids of frontends. Written only by the agent, when a frontend is added or removed; read by every
 * program. Key: address in network order, port in host order. Resized by the agent; full: the agent
 * reports the Service as failed. No eviction. NO_PREALLOC: unused capacity costs only buckets.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct frontend4_key);
	__type(value, struct frontend_ref);
} fl_frontend4 SEC(".maps");

/* As fl_frontend4, for IPv6. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct frontend6_key);
	__type(value, struct frontend_ref);
} fl_frontend6 SEC(".maps");

/*
 * Frontends of both families. Written by the agent through shared memory: entirely before a key
 * leads to it, then word by word. Read by every program. Key: frontend id. Resized by the agent,
 * together with fl_fe_stat.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 262144);
	__type(key, __u32);
	__type(value, struct frontend);
} fl_frontend SEC(".maps");

/*
 * Slots of all sets. Written by the agent through shared memory, before a traffic rule refers to
 * them and never while one does; read by every program. Key: block number. Resized by the agent.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 131072);
	__type(key, __u32);
	__type(value, struct slot_block);
} fl_slot_block SEC(".maps");

/*
 * Rounds through sets of round robin. Written and read by the programs, each CPU its own; not
 * atomic: a task that preempts another one may choose the same slot. Key: number of the set's first
 * block, modulo TURNS.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TURNS);
	__type(key, __u32);
	__type(value, struct turn);
} fl_turn SEC(".maps");

/*
 * Backends. Written by the agent through shared memory; after publication only `state` changes.
 * Read by the programs. Key: backend id; one id space across both families, 0 is never used.
 * Resized by the agent, together with fl_backend6, fl_be_stat and fl_be_flows.
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
 * Key: service_id. No eviction.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct service_name);
} fl_service SEC(".maps");

/* Counters of frontends. Written by the programs (atomic adds); the agent reads. Key:
 * frontend_id. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 262144);
	__type(key, __u32);
	__type(value, struct frontend_stat);
} fl_fe_stat SEC(".maps");

/*
 * Counters of backends. Written by the programs (atomic adds); the agent reads, and zeroes an
 * element when it gives the id to another backend. Key: backend id.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 262144);
	__type(key, __u32);
	__type(value, struct backend_stat);
} fl_be_stat SEC(".maps");

/*
 * Living flows of packets of backends. Written by the packet programs, the sweep and the agent
 * (atomic adds); read by the programs when they look for the backend with the fewest, and by the
 * agent, which zeroes an element as that of fl_be_stat. Key: backend id; 0: see struct
 * backend_flows.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 262144);
	__type(key, __u32);
	__type(value, struct backend_flows);
} fl_be_flows SEC(".maps");

/* Outcomes of socket calls. Written by the programs; the agent sums CPUs. Key: enum reason.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS);
	__type(key, __u32);
	__type(value, __u64);
} fl_reason SEC(".maps");

/*
 * Session affinity. Written and read by the programs. Full: LRU eviction; the client of an evicted
 * entry gets a new backend with its next connection.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct affinity_key);
	__type(value, struct affinity);
} fl_affinity SEC(".maps");

/*
 * Addresses of this node that answer NodePorts. Written by the agent; read by the programs when
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
 * Ranges of source addresses: those that may use the frontends of a service port, and with service
 * id 0 those of pods. Written by the agent; read by the programs, for the former only if the rule
 * has the flag source_ranges. Resized by the agent; full: the agent reports the Service as failed.
 * No eviction. The kernel frees elements after a grace period, so that a reader never finds another
 * key's value here.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct source_range_key);
	__type(value, struct source_range);
} fl_range SEC(".maps");

/*
 * Ranges of addresses without frontends, see range_of(), and port numbers without NodePorts, one
 * bit each. 1: there is no frontend, and no look-up is needed. 0, the initial value: look up. The
 * agent clears a bit before it publishes a frontend and sets it after the last one is removed. Key:
 * index of a word, first the IPv4 ranges, then the IPv6 ones, then the ports.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 3 * RANGES / RANGES_PER_WORD);
	__type(key, __u32);
	__type(value, __u64);
} fl_not_service SEC(".maps");

/* Runtime flags, one element. Written through shared memory: skipped_cgroups by `fairlead bypass`,
 * the rest by the agent. Read by the programs.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct runtime_flags);
} fl_runtime SEC(".maps");

/*
 * The node's own address: what source ranges are compared with for its sockets that are bound to no
 * address. Written by the agent; read by the socket programs. One element.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct node);
} fl_node SEC(".maps");

/* Key of maps of one element. Not on the stack, where it would make equal states differ for the
 * verifier. */
const __u32 runtime_key = 0;

static __always_inline struct runtime_flags *runtime_flags(void)
{
	return bpf_map_lookup_elem(&fl_runtime, &runtime_key);
}

#endif
