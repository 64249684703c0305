/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts the packets and bytes of connections, and the living connections of backends, which least
 * connections compares: see struct backend_flows.
 */
#ifndef FAIRLEAD_CONN_TRAFFIC_H
#define FAIRLEAD_CONN_TRAFFIC_H

#include "common/backend.h"
#include "packet/conn/record.h"
#include "packet/maps.h"

/* --- living connections ------------------------------------------------------------------------
 */

static __always_inline __u32 seconds_of(__u32 tick)
{
	return ((__u64)tick << TICK_SHIFT) / NS_PER_SECOND;
}

/* Whether a connection that began then was there when the sweep's round began. */
static __always_inline bool is_older(__u32 born)
{
	const struct backend_flows *round = bpf_map_lookup_elem(&fl_be_flows, &runtime_key);

	return round && seconds_of(born) < round->met;
}

/*
 * A connection of packets is made, and never open: open ones are those of sockets. `born`: tick.
 * Global, see backend.h: several functions make connections.
 */
__noinline int fl_count_conn(__u32 backend_id, __u32 born)
{
	struct backend_stat *stat = bpf_map_lookup_elem(&fl_be_stat, &backend_id);
	struct backend_flows *flows = bpf_map_lookup_elem(&fl_be_flows, &backend_id);

	if (stat) {
		__sync_fetch_and_add(&stat->connections, 1);
		__sync_fetch_and_add(&stat->closed, 1);
	}
	if (flows)
		__sync_fetch_and_add(is_older(born) ? &flows->older : &flows->newer, 1);
	return 0;
}

/* NULL: the id may belong to another backend by now. */
static __always_inline struct backend_flows *flows_of(__u32 backend_id, __u16 generation,
						      enum family family)
{
	struct backend b;

	if (!read_backend(backend_id, family, &b) || b.state == BACKEND_FREE ||
	    b.generation != generation)
		return NULL;
	return bpf_map_lookup_elem(&fl_be_flows, &backend_id);
}

static __always_inline void take_from_count(const struct conn *c, enum family family)
{
	struct backend_flows *flows = flows_of(c->backend_id, c->life.generation, family);

	if (!flows)
		return;
	if (!is_older(c->born)) {
		__sync_fetch_and_add(&flows->newer, -1);
		return;
	}
	__sync_fetch_and_add(&flows->ended, 1);
	__sync_fetch_and_add(&flows->older, -1);
}

/* --- packets and bytes --------------------------------------------------------------------------
 */

/* Of the word of the bytes: one more of the packets' upper bits, if the lower ones are 0 again. */
static __always_inline __u64 carry_of(__u32 packets)
{
	return (__u64)(1 - is_set(packets)) << TRAFFIC_BYTE_BITS;
}

static __always_inline __u64 traffic_word(__u64 bytes, __u64 packets)
{
	return (bytes & TRAFFIC_BYTES) | packets >> 32 << TRAFFIC_BYTE_BITS;
}

static __always_inline __u64 packets_of(__u64 word, __u32 packets)
{
	return word >> TRAFFIC_BYTE_BITS << 32 | packets;
}

static __always_inline struct traffic traffic_of(const struct conn_traffic *t)
{
	return (struct traffic){
		.packets = packets_of(t->bytes, t->packets),
		.bytes = t->bytes & TRAFFIC_BYTES,
		.reply_packets = packets_of(t->reply_bytes, t->reply_packets),
		.reply_bytes = t->reply_bytes & TRAFFIC_BYTES,
	};
}

/* Not atomic: packets of one connection meet on two CPUs seldom, and then only a count is lost. */
static __always_inline void count_packet(__u32 index, __u32 bytes, bool from_backend,
					 enum family family)
{
	struct conn_traffic *traffic = conn_traffic_at(index, family);

	if (!traffic)
		return;
	if (from_backend) {
		traffic->reply_packets += 1;
		traffic->reply_bytes += bytes + carry_of(traffic->reply_packets);
	} else {
		traffic->packets += 1;
		traffic->bytes += bytes + carry_of(traffic->packets);
	}
}

/* Counters of a connection that ends are kept for its frontend. */
static __always_inline void keep_traffic(const union conn_record *r, __u32 index,
					 enum family family)
{
	const struct conn_traffic *t = conn_traffic_at(index, family);
	struct traffic *sum = bpf_map_lookup_elem(&fl_traffic, &r->conn.frontend_id);
	struct traffic own;

	if (!sum || !t)
		return;
	own = traffic_of(t);
	__sync_fetch_and_add(&sum->packets, own.packets);
	__sync_fetch_and_add(&sum->bytes, own.bytes);
	__sync_fetch_and_add(&sum->reply_packets, own.reply_packets);
	__sync_fetch_and_add(&sum->reply_bytes, own.reply_bytes);
}

/* The slot of the record is BUSY. */
static __always_inline void count_end(const union conn_record *r, __u32 index, enum family family)
{
	keep_traffic(r, index, family);
	take_from_count(&r->conn, family);
}

#endif
