/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the rounds of conn_churn.bpf.c share: counters, keys, and records whose fields all follow
 * from their key and from `born`.
 */
#ifndef FAIRLEAD_TEST_CONN_WORK_H
#define FAIRLEAD_TEST_CONN_WORK_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "packet/conn/client/begin.h"
#include "packet/conn/find.h"

#define SECRET 0x0123456789abcdefULL

const volatile __u32 keys = 1;
const volatile __u32 ports = 4096;

struct churn_counts {
	__u64 begun, doubled, taken, no_room, ended, confirmed, renewed;
	/* Never: a record of another key or torn; one without its reply, or that is not found; a
	 * confirmed one that is gone; two of one key. */
	__u64 foreign, lost_reply, not_found, gone, twice;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct churn_counts);
} counted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sure SEC(".maps");

#define COUNT(what, by)                                                          \
	do {                                                                     \
		__u32 zero_ = 0;                                                 \
		struct churn_counts *n_ = bpf_map_lookup_elem(&counted, &zero_); \
                                                                                 \
		if (n_)                                                          \
			n_->what += by;                                          \
	} while (0)

/* Of one round. */
struct work {
	struct conn_env env;
	struct tuple tuple;
	struct tuple reply;
	union conn_record copy;
	union conn_record again;
	struct conn_slot slot;
	struct conn_slot slot_again;
	__u32 id;
	__u32 reply_index;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct work);
} works SEC(".maps");

/* --- keys and records ------------------------------------------------------------------------- */

static __always_inline void make_address(struct address *a, __u32 n, enum family family)
{
	if (family == FAMILY_IPV4) {
		set_ipv4(a, n);
		return;
	}
	a->word[0] = bpf_htonl(0x20010db8);
	a->word[1] = 0;
	a->word[2] = n;
	a->word[3] = n * 3;
}

static __always_inline void make_tuple(__u32 id, struct tuple *t, enum family family)
{
	make_address(&t->source, id * 2654435761u, family);
	make_address(&t->destination, 0x0a0a600a, family);
	t->source_port = id;
	t->destination_port = 80;
	t->protocol = id & 1 ? PROTOCOL_TCP : PROTOCOL_UDP;
}

static __always_inline void make_record(struct work *w, union conn_record *r, enum family family)
{
	__u32 born = bpf_get_prandom_u32();
	struct address a;

	__builtin_memset(r, 0, sizeof(*r));
	put_conn_address(r, CONN_CLIENT, &w->tuple.source, family);
	put_conn_address(r, CONN_FRONTEND, &w->tuple.destination, family);
	make_address(&a, 0x0502010a, family);
	put_conn_address(r, CONN_BACKEND, &a, family);
	make_address(&a, 0x0b0200c0, family);
	put_conn_address(r, CONN_REPLY, &a, family);
	r->conn.client_port = w->tuple.source_port;
	r->conn.frontend_port = w->tuple.destination_port;
	r->conn.backend_port = 8080;
	r->conn.backend_id = w->id;
	r->conn.frontend_id = ~w->id;
	r->conn.born = born;
	r->conn.seen = w->env.now;
	r->conn.life.protocol = w->tuple.protocol;
	r->conn.life.generation = born ^ w->id;
	r->conn.life.flags.masquerade = 1;
	r->conn.marks.own = 1;
}

/* Of what the proof covers: the rest may be of the connection before, for one packet. */
static __always_inline bool is_of_key(const union conn_record *r, __u32 id)
{
	const struct conn *c = &r->conn;

	return c->backend_id == id && c->frontend_id == ~id && c->backend_port == 8080 &&
	       c->life.generation == (__u16)(c->born ^ id);
}

static __always_inline __u16 any_port(void)
{
	return 1024 + bpf_get_prandom_u32() % ports;
}

static __always_inline void add_sure(__u32 id)
{
	__u32 *n = bpf_map_lookup_elem(&sure, &id);

	if (n)
		__sync_fetch_and_add(n, 1);
}

static __always_inline __u32 sure_of(__u32 id)
{
	const volatile __u32 *n = bpf_map_lookup_elem(&sure, &id);

	return n ? *n : 0;
}

#endif
