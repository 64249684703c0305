/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What selection costs, over an empty program and beside the usual layout: one hash entry per slot
 * (key with slot 0 holds the count, slot n a backend id, a second hash has the backend). Each
 * program makes one choice for a random frontend. Not shipped.
 */
#include <stddef.h>

#include "common/select.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* How many frontends there are. */
const volatile __u32 frontends = 10000;

struct slot_key {
	__u8 address[4];
	__u16 port;
	__u16 slot;
	__u8 protocol;
	__u8 scope;
	__u8 pad[2];
};

struct slot_value {
	__u32 backend_id;
	__u16 count;
	__u16 service_id;
	__u32 flags;
};

struct slot_backend {
	__u8 address[4];
	__u16 port;
	__u8 protocol;
	__u8 flags;
	__u16 cluster;
	__u8 zone;
	__u8 pad;
};

/* Written by the benchmark. Key: frontend and slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct slot_key);
	__type(value, struct slot_value);
} fl_slot SEC(".maps");

/* Written by the benchmark. Key: backend id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, __u32);
	__type(value, struct slot_backend);
} fl_slot_backend SEC(".maps");

/* 10.128.0.0 plus a random number below `frontends`. */
static __always_inline __be32 random_frontend(void)
{
	__u64 random = bpf_get_prandom_u32();

	return bpf_htonl(0x0a800000 + ((random * frontends) >> 32));
}

/* All that the others do besides selecting. */
SEC("xdp") int fl_bench_empty(void *ctx __attribute__((unused)))
{
	return random_frontend() == 0 ? XDP_DROP : XDP_PASS;
}

SEC("xdp") int fl_bench_set(void *ctx __attribute__((unused)))
{
	struct request request = {
		.port = 80,
		.protocol = PROTOCOL_TCP,
		.position = POSITION_HOST,
		.may_choose_anew = true,
	};
	struct choice choice = {};

	set_ipv4(&request.address, random_frontend());
	select_backend(&request, FAMILY_IPV4, &choice);
	return choice.verdict == VERDICT_TRANSLATE && choice.port ? XDP_PASS : XDP_DROP;
}

/* An address that is no frontend: what every other connection of the node pays. */
SEC("xdp") int fl_bench_miss(void *ctx __attribute__((unused)))
{
	struct request request = {
		.port = 80,
		.protocol = PROTOCOL_TCP,
		.position = POSITION_HOST,
		.may_choose_anew = true,
	};
	struct choice choice = {};

	set_ipv4(&request.address, random_frontend() ^ bpf_htonl(0x00400000));
	select_backend(&request, FAMILY_IPV4, &choice);
	return choice.reason == REASON_NOT_A_FRONTEND ? XDP_PASS : XDP_DROP;
}

SEC("xdp") int fl_bench_slot(void *ctx __attribute__((unused)))
{
	__be32 address = random_frontend();
	struct slot_key key = {.port = 80, .protocol = PROTOCOL_TCP};
	struct slot_backend *backend;
	struct slot_value *found;
	__u32 id;

	__builtin_memcpy(key.address, &address, sizeof(key.address));
	found = bpf_map_lookup_elem(&fl_slot, &key);
	if (!found || !found->count)
		return XDP_DROP;
	key.slot = 1 + bpf_get_prandom_u32() % found->count;
	found = bpf_map_lookup_elem(&fl_slot, &key);
	if (!found)
		return XDP_DROP;
	id = found->backend_id;
	backend = bpf_map_lookup_elem(&fl_slot_backend, &id);
	return backend && backend->port ? XDP_PASS : XDP_DROP;
}
