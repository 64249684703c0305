/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Carries a table of connections into one of another size, a bucket in each run: while maps are
 * migrated, by the agent alone.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "packet/conn/carry.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The other table. */
CONN_ARRAY(fl_from_conn4, conn4);
CONN_ARRAY(fl_from_conn6, conn6);
CONN_ARRAY(fl_from_client4, client_bucket);
CONN_ARRAY(fl_from_client6, client_bucket);
CONN_ARRAY(fl_from_traf4, conn_traffic);
CONN_ARRAY(fl_from_traf6, conn_traffic);

CONN_ELEMENT(from_conn_at, fl_from_conn)
CONN_ELEMENT(from_bucket_at, fl_from_client)
CONN_ELEMENT(from_traffic_at, fl_from_traf)

/* Written by the agent before a round, then by the program. One element. */
struct carrying {
	struct conn_env env;
	__u32 round;
	__u32 bucket;	/* the next one */
	__u32 count[3]; /* by enum carried */
	__u32 dropped;
	union conn_record copy;
	union conn_record here;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct carrying);
} fl_carrying SEC(".maps");

_Static_assert(offsetof(struct carrying, round) == 104, "AT of migration/conn-table-carry.ts");

static __always_inline struct carrying *carrying(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&fl_carrying, &zero);
}

static __always_inline bool copy_from(__u32 index, union conn_record *copy, enum family family)
{
	const volatile union conn_record *r = from_conn_at(index, family);

#pragma clang loop unroll(full)
	for (int i = 0; r && i < words_of(family); i++)
		copy->word[i] = r->word[i];
	return r;
}

/* Of a later round only what is more than has been counted here since. */
static __always_inline void carry_traffic(__u32 from, __u32 to, enum family family)
{
	const struct conn_traffic *f = from_traffic_at(from, family);
	struct conn_traffic *t = conn_traffic_at(to, family);
	struct traffic old, new;

	if (!f || !t)
		return;
	old = traffic_of(f);
	new = traffic_of(t);
	if (old.packets > new.packets) {
		t->packets = old.packets;
		t->bytes = traffic_word(old.bytes, old.packets);
	}
	if (old.reply_packets > new.reply_packets) {
		t->reply_packets = old.reply_packets;
		t->reply_bytes = traffic_word(old.reply_bytes, old.reply_packets);
	}
}

static __always_inline int carry_one(__u32 index, __u32 word, enum family family)
{
	struct carrying *c = carrying();
	enum carried carried;
	__u32 to = 0;

	if (!c || !copy_from(index, &c->copy, family))
		return 0;
	carried =
		carry_record(&c->copy, word & CONN_HALF, c->round, &c->here, &to, &c->env, family);
	if (carried != CARRIED_NOT)
		carry_traffic(index, to, family);
	if (carried <= CARRIED_NOT)
		c->count[carried]++;
	return 0;
}

__noinline int fl_carry_one4(__u32 index, __u32 word)
{
	return carry_one(index, word, FAMILY_IPV4);
}

__noinline int fl_carry_one6(__u32 index, __u32 word)
{
	return carry_one(index, word, FAMILY_IPV6);
}

static __always_inline int carry(enum family family)
{
	struct carrying *c = carrying();
	struct client_bucket *b;
	__u32 bucket;

	if (!c)
		return 0;
	bucket = c->bucket++;
	b = from_bucket_at(bucket, family);
	for (__u32 i = 0; b && i < CONN_SLOTS; i++) {
		__u32 word = *(volatile __u32 *)&b->word[i], index = bucket * CONN_SLOTS + i;

		if (!word || word & CONN_BUSY)
			continue;
		if (family == FAMILY_IPV4)
			fl_carry_one4(index, word);
		else
			fl_carry_one6(index, word);
	}
	return 0;
}

static __always_inline int drop(enum family family)
{
	struct carrying *c = carrying();
	struct client_bucket *b;
	__u32 bucket;

	if (!c)
		return 0;
	bucket = c->bucket++;
	b = client_bucket_at(bucket, family);
	for (__u32 i = 0; b && i < CONN_SLOTS; i++) {
		struct conn_slot slot = {
			.index = bucket * CONN_SLOTS + i,
			.word = *(volatile __u32 *)&b->word[i],
		};

		if (slot.word)
			c->dropped += drop_carried(&slot, c->round, &c->env, family);
	}
	return 0;
}

#define PROGRAM(name, function, family)           \
	SEC("tc") int name(struct __sk_buff *skb) \
	{                                         \
		(void)skb;                        \
		return function(family);          \
	}

PROGRAM(fl_carry4, carry, FAMILY_IPV4)
PROGRAM(fl_carry6, carry, FAMILY_IPV6)
PROGRAM(fl_drop4, drop, FAMILY_IPV4)
PROGRAM(fl_drop6, drop, FAMILY_IPV6)
