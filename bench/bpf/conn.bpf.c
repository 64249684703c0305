/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the table of connections costs (bpf/packet/conn) beside the kernel's hash tables, as the
 * packet programs use them. Not shipped.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "packet/conn/client/begin.h"
#include "packet/conn/find.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define REPEAT 256
#define SECRET 0x0123456789abcdefULL

/* Connections in the tables. */
const volatile __u32 filled = 1;

/* As nf_conntrack and other proxies keep a connection: in elements of hash tables. */
struct hash_key {
	__u8 source[4];
	__u8 destination[4];
	__u16 source_port;
	__u16 destination_port;
	__u8 protocol;
	__u8 pad[3];
};

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
		__type(key, struct hash_key);                                                      \
		__type(value, struct value_type);                                                  \
	} name SEC(".maps")

HASH(flow, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 1, flow_leg);
HASH(nat, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 1, nat_leg);
HASH(new_flow, BPF_MAP_TYPE_LRU_HASH, 0, 65536, flow_leg);
HASH(new_nat, BPF_MAP_TYPE_LRU_HASH, 0, 65536, nat_leg);
HASH(new_snat, BPF_MAP_TYPE_LRU_HASH, 0, 65536, snat_leg);

/* --- keys -------------------------------------------------------------------------------------- */

/* Not of one CPU: the stack is too small. */
struct conn_env env = {.secret = SECRET, .now = 1, .udp_new = TICKS_OF(30)};
union conn_record record;

static __always_inline void wire_at(__u32 i, struct tuple *t)
{
	set_ipv4(&t->source, i * 2654435761u);
	set_ipv4(&t->destination, bpf_htonl(0x0a600a0a));
	t->source_port = i;
	t->destination_port = 80;
	t->protocol = PROTOCOL_TCP;
}

/* As of a hash table. */
static __always_inline void key_at(__u32 i, struct hash_key *key)
{
	__u32 source = i * 2654435761u, destination = bpf_htonl(0x0a600a0a);

	__builtin_memset(key, 0, sizeof(*key));
	__builtin_memcpy(key->source, &source, sizeof(source));
	__builtin_memcpy(key->destination, &destination, sizeof(destination));
	key->source_port = i;
	key->destination_port = 80;
	key->protocol = PROTOCOL_TCP;
}

/* Each SNAT address has 65,536 ports. */
static __always_inline void make_record(__u32 i, const struct tuple *t, union conn_record *r)
{
	struct address backend, reply;

	set_ipv4(&backend, bpf_htonl(0x0a010205));
	set_ipv4(&reply, bpf_htonl(0xc000020b + (i >> 16)));
	__builtin_memset(r, 0, sizeof(*r));
	put_conn_address(r, CONN_CLIENT, &t->source, FAMILY_IPV4);
	put_conn_address(r, CONN_FRONTEND, &t->destination, FAMILY_IPV4);
	put_conn_address(r, CONN_BACKEND, &backend, FAMILY_IPV4);
	put_conn_address(r, CONN_REPLY, &reply, FAMILY_IPV4);
	r->conn.client_port = t->source_port;
	r->conn.frontend_port = t->destination_port;
	r->conn.backend_port = 8080;
	r->conn.reply_port = i;
	r->conn.backend_id = i;
	r->conn.life.protocol = t->protocol;
}

/* --- measures ---------------------------------------------------------------------------------- */

/* Not of one CPU: the caller may change it. */
__u32 begun = 0;

/* Confirmed at once if not `half`. False: no room. */
static __always_inline bool begin(__u32 i, const struct tuple *t, struct conn_slot *slot)
{
	if (begin_slot(t, 0, slot, &env, FAMILY_IPV4) != BEGIN_MADE)
		return false;
	make_record(i, t, &record);
	write_record(slot->index, &record, &env, FAMILY_IPV4);
	if (claim_reply(&record, slot->index, &env, FAMILY_IPV4) != CLAIM_MADE) {
		cancel_slot(slot, t, &env, FAMILY_IPV4);
		return false;
	}
	publish_slot(slot, FAMILY_IPV4);
	return true;
}

SEC("tc") int fill(struct __sk_buff *skb)
{
	struct flow_leg a = {};
	struct nat_leg b = {};

	(void)skb;
	for (int i = 0; i < 16 && begun < filled; i++) {
		struct conn_slot slot;
		struct hash_key key;
		struct tuple t;

		key_at(begun, &key);
		wire_at(begun, &t);
		bpf_map_update_elem(&flow, &key, &a, BPF_ANY);
		bpf_map_update_elem(&nat, &key, &b, BPF_ANY);
		begin(begun, &t, &slot);
		begun++;
	}
	return begun >= filled;
}

#define MEASURE(name, number, work)                                                                \
	static long do_##name(__u32 round, void *context)                                          \
	{                                                                                          \
		__u32 *sum = context, i = number;                                                  \
		(void)round;                                                                       \
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

static __always_inline __u32 make_key(__u32 i)
{
	struct hash_key key;

	key_at(i, &key);
	asm volatile("" : : "r"(&key) : "memory");
	return key.source[0];
}

static __always_inline __u32 make_wire(__u32 i)
{
	struct tuple t;

	wire_at(i, &t);
	asm volatile("" : : "r"(&t) : "memory");
	return t.source.word[3];
}

static __always_inline __u32 touch_flow(const struct hash_key *key)
{
	struct flow_leg *a = bpf_map_lookup_elem(&flow, key);

	if (!a)
		return 0;
	a->byte[40] = 1;
	return a->byte[0];
}

static __always_inline __u32 touch_nat(const struct hash_key *key)
{
	struct nat_leg *b = bpf_map_lookup_elem(&nat, key);

	if (!b)
		return 0;
	b->byte[40] = 1;
	return b->byte[0];
}

static __always_inline __u32 touch_hashes(__u32 i, bool both)
{
	struct hash_key key;
	__u32 sum;

	key_at(i, &key);
	sum = touch_flow(&key);
	return both ? sum + touch_nat(&key) : sum;
}

static __always_inline __u32 touch_conn(__u32 i)
{
	struct conn_slot slot;
	struct tuple t;
	struct conn *c;

	wire_at(i, &t);
	if (!find_client(&t, &env, &record, &slot, FAMILY_IPV4))
		return 0;
	c = conn_at(slot.index, FAMILY_IPV4);
	if (c)
		c->seen = i;
	return record.conn.backend_id;
}

static __always_inline __u32 begin_in_hashes(__u32 i)
{
	struct flow_leg a = {};
	struct nat_leg b = {};
	struct snat_leg c = {};
	struct hash_key key;

	key_at(i, &key);
	bpf_map_update_elem(&new_flow, &key, &a, BPF_ANY);
	bpf_map_update_elem(&new_nat, &key, &b, BPF_NOEXIST);
	bpf_map_update_elem(&new_snat, &key, &c, BPF_NOEXIST);
	return 1;
}

/* And ends: so that the table is as full as before. */
static __always_inline __u32 begin_in_table(__u32 i)
{
	struct conn_slot slot;
	struct tuple t;

	wire_at(i, &t);
	if (!begin(i, &t, &slot) || !lock_slot(&slot, FAMILY_IPV4))
		return 0;
	release_slot(&slot, &env, FAMILY_IPV4);
	return 1;
}

MEASURE(key_known, KNOWN, *sum += make_key(i))
MEASURE(key_unknown, UNKNOWN, *sum += make_key(i))
MEASURE(wire_known, KNOWN, *sum += make_wire(i))
MEASURE(wire_unknown, UNKNOWN, *sum += make_wire(i))
MEASURE(hash_hit, KNOWN, *sum += touch_hashes(i, false))
MEASURE(hash_hit_both, KNOWN, *sum += touch_hashes(i, true))
MEASURE(hash_miss, UNKNOWN, *sum += touch_hashes(i, false))
MEASURE(table_hit, KNOWN, *sum += touch_conn(i))
MEASURE(table_miss, UNKNOWN, *sum += touch_conn(i))
MEASURE(hash_begin, UNKNOWN, *sum += begin_in_hashes(i))
MEASURE(table_begin_and_end, UNKNOWN, *sum += begin_in_table(i))
