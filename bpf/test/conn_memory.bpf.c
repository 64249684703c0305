/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory of a connection table, for those who read all of it: the agent by itself, or a sweep
 * that looks for records that are over, by PROG_TEST_RUN. Not shipped.
 */
#include "packet/conn/life/liveness.h"

/* For the object's BTF. */
const struct conn_traffic *const volatile conn_traffic_layout = NULL;

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define MEMORY(name, struct_name)                  \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, 1);            \
		__type(key, __u32);                \
		__type(value, struct struct_name); \
	} name SEC(".maps")

MEMORY(fl_conn4, conn4);
MEMORY(fl_conn6, conn6);
MEMORY(fl_client4, client_bucket);
MEMORY(fl_client6, client_bucket);
MEMORY(fl_reply4, reply_bucket);

/* One call of the sweep: so many buckets of IPv4, and what it has found. */
struct sweep_part {
	struct flow_timeouts timeouts;
	__u32 now;
	__u32 first;
	__u32 count;
	__u32 records;
	__u32 over;
	__u32 pad;
};

MEMORY(fl_part, sweep_part);

/* As the verifier walks them: each iteration is a call. */
#define MOST_BUCKETS 4096

static __always_inline struct sweep_part *this_part(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&fl_part, &zero);
}

/* A word that is BUSY is a connection that begins, or ends, just now. */
__noinline int fl_sweep_bucket(__u32 bucket)
{
	const struct client_bucket *b = bpf_map_lookup_elem(&fl_client4, &bucket);
	struct sweep_part *part = this_part();

	for (__u32 slot = 0; b && part && slot < CONN_SLOTS; slot++) {
		__u32 word = b->word[slot], index = bucket * CONN_SLOTS + slot;
		const struct conn4 *c;

		if (!word || word & CONN_BUSY)
			continue;
		c = bpf_map_lookup_elem(&fl_conn4, &index);
		if (!c)
			continue;
		part->records += 1;
		if (liveness_of(c->conn.life, ticks_passed(c->conn.seen, part->now),
				&part->timeouts) == CONN_EXPIRED)
			part->over += 1;
	}
	return 0;
}

SEC("tc") int fl_sweep_part(struct __sk_buff *skb)
{
	struct sweep_part *part = this_part();

	(void)skb;
	if (!part)
		return 1;
	for (__u32 i = 0; i < MOST_BUCKETS && i < part->count; i++)
		fl_sweep_bucket(part->first + i);
	return 0;
}

/* For its layout. */
SEC("tc") int fl_layouts(struct __sk_buff *skb)
{
	__u32 zero = 0;

	(void)skb;
	return bpf_map_lookup_elem(&fl_conn6, &zero) && bpf_map_lookup_elem(&fl_client6, &zero) &&
	       bpf_map_lookup_elem(&fl_reply4, &zero);
}
