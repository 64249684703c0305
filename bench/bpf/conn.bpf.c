/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the table of conn_table.h costs beside the kernel's hash tables, as the packet programs use
 * them, and whether it holds: `churn` on two CPUs finds lost, doubled and foreign records. Not
 * shipped.
 */
#include "conn_table.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define REPEAT 256

/* Connections in the tables. */
const volatile __u32 filled = 1;
/* Of `churn`: how many keys two CPUs begin and end, and how many SNAT ports they have. */
const volatile __u32 keys = 1;
const volatile __u32 ports = 4096;

struct flow_leg {
	__u8 byte[56];
};
struct nat_leg {
	__u8 byte[48];
};
struct snat_leg {
	__u8 byte[16];
};

#define HASH(name, kind, flags, count, value_type)                                                 \
	struct {                                                                                   \
		__uint(type, kind);                                                                \
		__uint(map_flags, flags);                                                          \
		__uint(max_entries, count);                                                        \
		__type(key, struct conn_tuple);                                                    \
		__type(value, struct value_type);                                                  \
	} name SEC(".maps")

HASH(flow, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 1, flow_leg);
HASH(nat, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 1, nat_leg);
HASH(new_flow, BPF_MAP_TYPE_LRU_HASH, 0, 65536, flow_leg);
HASH(new_nat, BPF_MAP_TYPE_LRU_HASH, 0, 65536, nat_leg);
HASH(new_snat, BPF_MAP_TYPE_LRU_HASH, 0, 65536, snat_leg);

struct counts {
	__u64 inserted, deleted, doubled, port_taken, no_room;
	/* Never: a record of another key, without its reply, or two of one key. */
	__u64 foreign, lost, twice;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counted SEC(".maps");

static __always_inline struct counts *counts_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&counted, &zero);
}

static __always_inline void key_at(__u32 i, struct conn_tuple *t)
{
	t->source = i * 2654435761u;
	t->destination = 0x0a600a0a;
	t->source_port = i;
	t->destination_port = 80;
	t->protocol = 6;
}

static __always_inline void fill_record(struct conn *c, const struct conn_tuple *t, __u32 id,
					__u16 port)
{
	__builtin_memset(c, 0, sizeof(*c));
	c->request = *t;
	c->backend = 0x0a010205;
	/* Each SNAT address has 65,536 ports. */
	c->snat = 0xc000020b + (id >> 16);
	c->backend_port = 8080;
	c->snat_port = port;
	c->backend_id = id;
	c->seen_client = 1;
}

/* 0: it is there now, or was. */
static __always_inline enum claimed insert(const struct conn_tuple *t, __u32 id, __u16 port,
					   __u32 now, bool *is_double)
{
	__u64 hash = hash_conn(t, 7), reply_hash;
	__u32 claimed = claim_client(hash, now);
	enum claimed outcome;
	struct conn_tuple reply;
	struct conn *c;

	if (!claimed)
		return NO_ROOM;
	c = conn_at(claimed - 1);
	if (!c)
		return NO_ROOM;
	fill_record(c, t, id, port);
	reply_of(c, &reply);
	reply_hash = hash_conn(&reply, 7);
	/* Its first atomic instruction comes after the record for others, too. */
	outcome = claim_reply(&reply, reply_hash, claimed - 1, now);
	if (outcome == CLAIMED && is_doubled(t, hash, claimed)) {
		free_reply(reply_hash, claimed - 1, now);
		*is_double = true;
		outcome = PORT_TAKEN;
	}
	if (outcome != CLAIMED)
		release(hash, claimed - 1, now);
	else
		set_client_word(claimed - 1, tag_of(hash));
	return outcome;
}

/* --- measures ---------------------------------------------------------------------------------- */

/* Not of one CPU: the caller may change it. */
__u32 begun = 0;
__u32 without_room = 0;

SEC("tc") int fill(struct __sk_buff *skb)
{
	struct flow_leg a = {};
	struct nat_leg b = {};

	(void)skb;
	for (int i = 0; i < 64 && begun < filled; i++) {
		bool is_double = false;
		struct conn_tuple t;

		key_at(begun, &t);
		bpf_map_update_elem(&flow, &t, &a, BPF_ANY);
		bpf_map_update_elem(&nat, &t, &b, BPF_ANY);
		if (insert(&t, begun, begun, 1, &is_double) == NO_ROOM)
			without_room++;
		begun++;
	}
	return begun >= filled;
}

#define MEASURE(name, key_of, work)                                                                \
	static long do_##name(__u32 round, void *context)                                          \
	{                                                                                          \
		__u32 *sum = context;                                                              \
		struct conn_tuple t;                                                               \
		(void)round;                                                                       \
		key_at(key_of, &t);                                                                \
		work;                                                                              \
		return 0;                                                                          \
	}                                                                                          \
	SEC("tc") int name(struct __sk_buff *skb)                                                  \
	{                                                                                          \
		__u32 sum = 0;                                                                     \
		(void)skb;                                                                         \
		bpf_loop(REPEAT, do_##name, &sum, 0);                                              \
		return sum;                                                                        \
	}

#define KNOWN	(bpf_get_prandom_u32() % filled)
#define UNKNOWN (bpf_get_prandom_u32() | 0x80000000u)

static __always_inline void touch_flow(const struct conn_tuple *t, __u32 *sum)
{
	struct flow_leg *a = bpf_map_lookup_elem(&flow, t);

	if (a) {
		a->byte[40] = 1;
		*sum += a->byte[0];
	}
}

static __always_inline void touch_nat(const struct conn_tuple *t, __u32 *sum)
{
	struct nat_leg *b = bpf_map_lookup_elem(&nat, t);

	if (b) {
		b->byte[40] = 1;
		*sum += b->byte[0];
	}
}

static __always_inline void touch_conn(const struct conn_tuple *t, __u32 *sum)
{
	__u32 found = find_client(t, hash_conn(t, 7));
	struct conn *c = found ? conn_at(found - 1) : NULL;

	if (c) {
		c->state = 1;
		*sum += c->backend_id;
	}
}

static __always_inline void begin_in_hashes(const struct conn_tuple *t)
{
	struct flow_leg a = {};
	struct nat_leg b = {};
	struct snat_leg c = {};

	bpf_map_update_elem(&new_flow, t, &a, BPF_ANY);
	bpf_map_update_elem(&new_nat, t, &b, BPF_NOEXIST);
	bpf_map_update_elem(&new_snat, t, &c, BPF_NOEXIST);
}

/* And ends: so that the table is as full as before. */
static __always_inline void begin_in_table(const struct conn_tuple *t, __u32 *sum)
{
	__u32 now = bpf_ktime_get_ns() >> 16;
	__u64 hash = hash_conn(t, 7);
	struct conn_tuple reply;
	bool is_double = false;
	__u32 found;
	struct conn *c;

	*sum += insert(t, 1, t->source_port, now, &is_double);
	found = find_client(t, hash);
	c = found ? conn_at(found - 1) : NULL;
	if (!c)
		return;
	reply_of(c, &reply);
	free_reply(hash_conn(&reply, 7), found - 1, now);
	release(hash, found - 1, now);
}

MEASURE(empty_known, KNOWN, *sum += hash_conn(&t, 7))
MEASURE(empty_unknown, UNKNOWN, *sum += hash_conn(&t, 7))
MEASURE(hash_hit, KNOWN, touch_flow(&t, sum))
MEASURE(hash_hit_both, KNOWN, touch_flow(&t, sum); touch_nat(&t, sum))
MEASURE(hash_miss, UNKNOWN, touch_flow(&t, sum))
MEASURE(table_hit, KNOWN, touch_conn(&t, sum))
MEASURE(table_miss, UNKNOWN, touch_conn(&t, sum))
MEASURE(hash_begin, UNKNOWN, begin_in_hashes(&t); *sum += 1)
MEASURE(table_begin_and_end, UNKNOWN, begin_in_table(&t, sum))

/* --- two CPUs ---------------------------------------------------------------------------------- */

/* Takes the record from readers; false: another CPU does. */
static __always_inline bool unpublish(__u32 index, __u32 tag)
{
	__u32 bucket = index / SLOTS, i = index % SLOTS;
	struct client_bucket *b = bpf_map_lookup_elem(&fl_client, &bucket);

	return b && is_slot(&i) &&
	       __sync_val_compare_and_swap(&b->word[i], tag, tag | BUSY) == tag;
}

static __always_inline bool is_still(const struct conn_tuple *t, __u64 hash, __u32 found)
{
	return find_client(t, hash) == found;
}

/* Twice in one program: the first one may be about to go when the second one comes. */
static __always_inline bool is_published_twice(const struct conn_tuple *t, __u64 hash, __u32 found)
{
	__u32 first = bucket_of(hash, false), second = bucket_of(hash, true);
	__u32 tag = tag_of(hash), other = client_in(first, tag, t, false, found);

	if (!other)
		other = client_in(second, tag, t, false, found);
	return other && is_still(t, hash, found) &&
	       (client_in(first, tag, t, false, found) == other ||
		client_in(second, tag, t, false, found) == other);
}

static __always_inline void look_or_end(struct counts *n, const struct conn_tuple *t, __u64 hash,
					__u32 found, __u32 id, __u32 now)
{
	struct conn *c = conn_at(found - 1);
	struct conn_tuple reply;
	__u64 reply_hash;

	if (!c)
		return;
	reply_of(c, &reply);
	reply_hash = hash_conn(&reply, 7);
	for (int i = 0; i < 64; i++)
		if (*(volatile __u32 *)&c->backend_id != id)
			n->foreign++;
	if (find_reply(&reply, reply_hash) != found && is_still(t, hash, found))
		n->lost++;
	if (is_published_twice(t, hash, found))
		n->twice++;
	if (bpf_get_prandom_u32() & 1 || !unpublish(found - 1, tag_of(hash)))
		return;
	free_reply(reply_hash, found - 1, now);
	release(hash, found - 1, now);
	n->deleted++;
}

static long churn_once(__u32 round, void *context)
{
	__u32 now = bpf_ktime_get_ns() >> 16, id = bpf_get_prandom_u32() % keys, found;
	struct counts *n = counts_here();
	bool is_double = false;
	enum claimed outcome;
	struct conn_tuple t;
	__u64 hash;

	(void)round, (void)context;
	if (!n)
		return 1;
	key_at(id, &t);
	hash = hash_conn(&t, 7);
	found = find_client(&t, hash);
	if (found) {
		look_or_end(n, &t, hash, found, id, now);
		return 0;
	}
	outcome = insert(&t, id, 1024 + bpf_get_prandom_u32() % ports, now, &is_double);
	if (outcome == CLAIMED)
		n->inserted++;
	else if (is_double)
		n->doubled++;
	else if (outcome == PORT_TAKEN)
		n->port_taken++;
	else
		n->no_room++;
	return 0;
}

SEC("tc") int churn(struct __sk_buff *skb)
{
	(void)skb;
	bpf_loop(REPEAT, churn_once, NULL, 0);
	return 0;
}
