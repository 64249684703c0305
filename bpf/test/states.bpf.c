/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One packet of one connection, for PROG_TEST_RUN: the record follows it, as the packet programs
 * let it. Both are in shared memory, since a packet's bytes cannot be compared and swapped. Not
 * shipped.
 */
#include "packet/conn/life/follow.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct states_case {
	struct conn conn;
	struct conn_life read; /* what the program has read of conn.life before */
	struct flow_timeouts timeouts;
	__u32 now;
	__u32 sequence; /* SCTP: the tag */
	__u32 acknowledged;
	__u8 from_backend;
	__u8 tcp_flags;
	__u8 chunk;
	__u8 backend; /* enum backend_state */
	/* Out. */
	__u32 effects;
	enum conn_event event;
	enum conn_liveness liveness;
	__u32 is_confirmed;
};

/* One element. Written by the test; read and written by the program. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct states_case);
} fl_case SEC(".maps");

/* As read_tcp() and set_headers() of the packet programs. */
static __always_inline void set_tcp(struct conn_packet *p, __u32 sequence, __u32 acknowledged,
				    __u8 flags)
{
	p->tcp_flags = flags;
	p->progress = (sequence & 0xffff0000) | acknowledged >> 16;
	p->syn = 0;
	if (flags & TCP_ACK && flags & (TCP_SYN | TCP_RST))
		p->syn = syn_at(acknowledged - 1);
	else if (flags & TCP_SYN)
		p->syn = syn_at(sequence);
}

SEC("tc") int fl_states(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct states_case *c = bpf_map_lookup_elem(&fl_case, &zero);
	struct conn_packet p = {};
	struct conn_view v;

	(void)skb;
	if (!c)
		return 1;
	v.timeouts = &c->timeouts;
	v.now = c->now;
	v.backend = c->backend;
	p.from_backend = c->from_backend;
	p.chunk = c->chunk;
	p.progress = c->sequence;
	if (c->read.protocol == PROTOCOL_TCP)
		set_tcp(&p, c->sequence, c->acknowledged, c->tcp_flags);
	c->event = event_of(&c->conn, c->read, &p, &v);
	c->effects = follow(&c->conn, c->read, &p, &v);
	c->liveness = liveness_of(c->conn.life, ticks_passed(c->conn.seen, c->now), v.timeouts);
	c->is_confirmed = is_confirmed(c->conn.life);
	return 0;
}
