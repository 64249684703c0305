/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Deletes flows that have expired and legs whose flow leg is gone, and marks the addresses of all
 * others (fl_mark), without copying a table to user space. An object of its own, because the
 * helpers exist from Linux 5.14 on; before, the agent deletes (src/dataplane/bpf/flows). Each call
 * looks at a part of one table. It is not interrupted by itself, so it works in one element; the
 * packet programs have theirs.
 */
#include "packet/flow/legs.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* What the sweep works with, as fl_this_packet. One element. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet);
} fl_sweep_work SEC(".maps");

/* What it has done. Written by the sweep, read by the agent. One element. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct swept);
} fl_swept SEC(".maps");

/* Of one call, for its callbacks. */
struct part {
	__u32 slice;
	__u32 slices;
};

static __always_inline struct packet *work(void)
{
	return bpf_map_lookup_elem(&fl_sweep_work, &runtime_key);
}

static __always_inline struct swept *swept(void)
{
	return bpf_map_lookup_elem(&fl_swept, &runtime_key);
}

/* By the check, which is as good as random, so that parts are equally large. */
static __always_inline bool is_in_part(__u32 check, const struct part *part)
{
	return part->slices && check % part->slices == part->slice;
}

static __always_inline void read_key(const void *key, struct tuple *t, enum family family)
{
	if (family == FAMILY_IPV6) {
		*t = *(const struct tuple *)key;
		return;
	}
	get_address(((const struct tuple4 *)key)->source, &t->source, family);
	get_address(((const struct tuple4 *)key)->destination, &t->destination, family);
	t->source_port = ((const struct tuple4 *)key)->source_port;
	t->destination_port = ((const struct tuple4 *)key)->destination_port;
	t->protocol = ((const struct tuple4 *)key)->protocol;
}

/* Long enough for a leg that was stored before its flow leg. */
static __always_inline bool is_orphan(const struct packet *p, __u32 seen, __u8 protocol)
{
	const struct packet_settings *s = packet_settings();

	return s && age_of(p->now, seen) > timeout_of(s, protocol, FLOW_NEW);
}

/* What the round corrects the count of the backend's flows by, see struct backend_flows. */
static __always_inline void meet(const struct flow *flow, enum family family)
{
	struct backend_flows *flows;

	if (!is_older(flow->born_seconds))
		return;
	flows = flows_of(flow->backend_id, flow->service_id, flow->generation, family);
	if (flows)
		flows->met += 1;
}

/* --- flow legs ---------------------------------------------------------------------------------
 */

static __always_inline long sweep_flow(const void *key, struct flow *flow, const struct part *part,
				       enum family family)
{
	struct packet *p = work();
	struct swept *sum = swept();
	struct nat *nat;

	if (!p || !sum || !is_in_part(flow->check, part))
		return 0;
	sum->entries += 1;
	read_key(key, &p->wire, family);
	if (!read_flow(p, flow, family))
		return 0;
	set_nat_key(p);
	nat = find_nat_of(p, family);
	if (nat && nat->check != nat_check(p, family))
		nat = NULL;
	if (!is_over(p, nat)) {
		meet(&p->flow, family);
		mark_frontend(p, family);
		/* A lost nat leg is made again from here; direct return has none. */
		if (!p->flow.flags.direct_return)
			mark_backend(p, family);
		return 0;
	}
	forget(p, family);
	sum->expired += 1;
	return 0;
}

/* --- nat legs ----------------------------------------------------------------------------------
 */

/* Whether the flow leg leads to this nat leg. */
static __always_inline bool has_flow(struct packet *p, const struct tuple *nat, enum family family)
{
	struct flow *flow = find_flow_of(p, family);

	if (!flow || !read_flow(p, flow, family))
		return false;
	set_nat_key(p);
	return p->nat.source_port == nat->source_port &&
	       p->nat.destination_port == nat->destination_port &&
	       is_same_address(&p->nat.source, &nat->source) &&
	       is_same_address(&p->nat.destination, &nat->destination);
}

/* The flow leg may be lost; a lost snat leg is made again from here. */
static __always_inline void mark_nat(struct packet *p, struct nat *nat, enum family family)
{
	bool is_sorted = nat->flags.client_is_source;

	p->wire.protocol = p->nat.protocol;
	p->backend = is_sorted ? p->nat.destination : p->nat.source;
	p->flow.backend_port = is_sorted ? p->nat.destination_port : p->nat.source_port;
	p->flow.flags.masquerade = nat->flags.masquerade;
	mark_backend(p, family);
	if (set_snat_key(p, nat, family))
		set_mark(p, MARKS_INGRESS, &p->snat.destination, SNAT_PORTS, family);
}

static __always_inline long sweep_nat(const void *key, struct nat *nat, const struct part *part,
				      enum family family)
{
	struct packet *p = work();
	struct swept *sum = swept();

	if (!p || !sum || !is_in_part(nat->check, part))
		return 0;
	sum->entries += 1;
	read_key(key, &p->quoted, family);
	p->nat = p->quoted;
	mark_nat(p, nat, family);
	if (!is_orphan(p, nat->seen_seconds, p->quoted.protocol))
		return 0;
	set_flow_key(p, nat, family);
	if (has_flow(p, &p->quoted, family))
		return 0;
	p->nat = p->quoted;
	forget_snat(p, nat, family);
	delete_nat(TIER_MAIN, &p->nat, family);
	delete_nat(TIER_NEW, &p->nat, family);
	sum->orphans += 1;
	return 0;
}

/* --- snat legs ---------------------------------------------------------------------------------
 */

/* Whether the nat leg leads to this snat leg. */
static __always_inline bool has_nat(struct packet *p, struct snat *snat, enum family family)
{
	struct nat *nat;

	get_address(client_of(snat), &p->wire.source, family);
	p->wire.source_port = snat->client_port;
	p->wire.destination = p->quoted.source;
	p->wire.destination_port = p->quoted.source_port;
	p->wire.protocol = p->quoted.protocol;
	set_sorted(&p->wire, &p->nat);
	nat = find_nat_of(p, family);
	return nat && set_snat_key(p, nat, family) &&
	       p->snat.destination_port == p->quoted.destination_port &&
	       is_same_address(&p->snat.destination, &p->quoted.destination);
}

/* By its flow, or to reserve its port. */
static __always_inline bool is_needed(struct packet *p, struct snat *snat, enum family family)
{
	if (snat->client_end.reserved)
		return age_of(p->now, snat->seen_seconds) <= RESERVED_SECONDS;
	return !is_orphan(p, snat->seen_seconds, p->quoted.protocol) || has_nat(p, snat, family);
}

static __always_inline long sweep_snat(const void *key, struct snat *snat, const struct part *part,
				       enum family family)
{
	struct packet *p = work();
	struct swept *sum = swept();

	if (!p || !sum || !is_in_part(snat->check, part))
		return 0;
	sum->entries += 1;
	read_key(key, &p->quoted, family);
	if (is_needed(p, snat, family)) {
		set_mark(p, MARKS_INGRESS, &p->quoted.destination, SNAT_PORTS, family);
		return 0;
	}
	delete_snat(TIER_MAIN, &p->quoted, family);
	delete_snat(TIER_NEW, &p->quoted, family);
	sum->orphans += 1;
	return 0;
}

/* --- tables ------------------------------------------------------------------------------------
 */

#define CALLBACK(leg, version)                                                             \
	static long on_##leg##version(void *map, const void *key, void *value, void *part) \
	{                                                                                  \
		(void)map;                                                                 \
		return sweep_##leg(key, value, part, FAMILY_IPV##version);                 \
	}

CALLBACK(flow, 4)
CALLBACK(flow, 6)
CALLBACK(nat, 4)
CALLBACK(nat, 6)
CALLBACK(snat, 4)
CALLBACK(snat, 6)

/*
 * Each call with its own map: before Linux 6.2 the verifier refuses one that the compiler has made
 * of several, as it does unless something different follows each.
 */
#define SWEEP(table, map, callback)                                  \
	case TABLE_##table:                                          \
		bpf_for_each_map_elem(&fl_##map, callback, part, 0); \
		asm volatile("/* " #map " */" ::: "memory");         \
		break;

static __always_inline void sweep_table(enum flow_table table, struct part *part)
{
	switch (table) {
		SWEEP(FLOW4, flow4, on_flow4)
		SWEEP(FLOW6, flow6, on_flow6)
		SWEEP(NEW_FLOW4, new_flow4, on_flow4)
		SWEEP(NEW_FLOW6, new_flow6, on_flow6)
		SWEEP(NAT4, nat4, on_nat4)
		SWEEP(NAT6, nat6, on_nat6)
		SWEEP(NEW_NAT4, new_nat4, on_nat4)
		SWEEP(NEW_NAT6, new_nat6, on_nat6)
		SWEEP(SNAT4, snat4, on_snat4)
		SWEEP(SNAT6, snat6, on_snat6)
		SWEEP(NEW_SNAT4, new_snat4, on_snat4)
		SWEEP(NEW_SNAT6, new_snat6, on_snat6)
	}
}

SEC("syscall") int fl_sweep(struct sweep_call *call)
{
	struct part part = {.slice = call->slice, .slices = call->slices};
	const struct packet_settings *s = packet_settings();
	struct packet *p = work();

	if (!p || !s)
		return 1;
	p->now = bpf_ktime_get_ns() / NS_PER_SECOND;
	p->secret = s->secret;
	sweep_table(call->table, &part);
	return 0;
}
