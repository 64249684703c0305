/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ends connections that have expired, and marks the addresses of all others (fl_mark). An object of
 * its own. Each call looks at some buckets of the clients' index. It is not interrupted by itself,
 * so it works in one element; the packet programs have theirs.
 */
#include <linux/if_ether.h>

#include "packet/flow/known.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Keeps the struct in the object's BTF, with which a test compares the agent's codec. */
const struct sweep_call *const volatile sweep_call_layout = NULL;

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

static __always_inline struct packet *work(void)
{
	return bpf_map_lookup_elem(&fl_sweep_work, &runtime_key);
}

static __always_inline struct swept *swept(void)
{
	return bpf_map_lookup_elem(&fl_swept, &runtime_key);
}

/* What the round corrects the count of the backend's flows by, see struct backend_flows. */
static __always_inline void meet(const struct conn *c, enum family family)
{
	struct backend_flows *flows;

	if (!is_older(c->born))
		return;
	flows = flows_of(c->backend_id, c->life.generation, family);
	if (flows)
		flows->met += 1;
}

/* What direct return sends never comes back: it has no marks for replies. */
static __always_inline void mark_conn(struct packet *p, enum family family)
{
	const struct conn *c = &p->conn.conn;
	struct address snat;

	get_conn_address(&p->conn, CONN_FRONTEND, &p->wire.destination, family);
	get_conn_address(&p->conn, CONN_BACKEND, &p->backend, family);
	p->wire.destination_port = c->frontend_port;
	p->wire.protocol = c->life.protocol;
	mark_frontend(p, family);
	if (is_one_sided(c->life))
		return;
	mark_backend(p, family);
	/* Also that of the node, which has noted the port of its own connection. */
	if (!c->reply_port || !(c->life.flags.masquerade || !c->backend_id))
		return;
	get_conn_address(&p->conn, CONN_REPLY, &snat, family);
	set_mark(p, MARKS_INGRESS, &snat, SNAT_PORTS, family);
}

static __always_inline void sweep_slot(struct packet *p, struct swept *sum, __u32 index,
				       enum family family)
{
	p->slot.index = index;
	read_word(&p->slot, family);
	if (!p->slot.word || p->slot.word & CONN_BUSY || !read_record(index, &p->conn, family))
		return;
	sum->entries += 1;
	if (!is_whole(&p->conn, p->env.secret, family))
		return;
	if (liveness(p, &p->conn) == CONN_EXPIRED) {
		sum->expired += end_unchanged(&p->conn, &p->slot, &p->env, family);
		return;
	}
	meet(&p->conn.conn, family);
	mark_conn(p, family);
}

static __always_inline int sweep_at(__u32 index, enum family family)
{
	struct packet *p = work();
	struct swept *sum = swept();

	if (p && sum)
		sweep_slot(p, sum, index, family);
	return 0;
}

__noinline int fl_sweep_at4(__u32 index)
{
	return sweep_at(index, FAMILY_IPV4);
}

__noinline int fl_sweep_at6(__u32 index)
{
	return sweep_at(index, FAMILY_IPV6);
}

/* Buckets of one call, at most. The verifier walks each loop: two of them are shorter than one. */
#define MOST_BUCKETS 512
#define PART	     64
#define PARTS	     (MOST_BUCKETS * CONN_SLOTS / PART)

__noinline int fl_sweep_part4(__u32 first, __u32 end)
{
	for (__u32 i = 0; i < PART && first + i < end; i++)
		fl_sweep_at4(first + i);
	return 0;
}

__noinline int fl_sweep_part6(__u32 first, __u32 end)
{
	for (__u32 i = 0; i < PART && first + i < end; i++)
		fl_sweep_at6(first + i);
	return 0;
}

static __always_inline int sweep_all(const struct sweep_call *call)
{
	__u32 first = call->first * CONN_SLOTS, end = first + call->count * CONN_SLOTS;

	for (__u32 i = 0; i < PARTS && first < end; i++, first += PART) {
		if (call->family == FAMILY_IPV4)
			fl_sweep_part4(first, end);
		else
			fl_sweep_part6(first, end);
	}
	return 0;
}

static __always_inline bool begin_sweep(void)
{
	const struct packet_settings *s = packet_settings();
	struct packet *p = work();

	if (!p || !s)
		return false;
	p->tick = 0;
	set_now(p);
	p->env.secret = s->secret;
	return true;
}

/* Run by the agent alone, with a struct sweep_call in place of a packet. */
SEC("tc") int fl_sweep(struct __sk_buff *skb)
{
	struct sweep_call call;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &call, sizeof(call)) || !begin_sweep())
		return 1;
	return sweep_all(&call);
}
