/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps of the table of connections, beside those of packet/maps.h. All are written by the
 * packet programs, and mapped and read by the agent, which sets their sizes before load. Key: a
 * number from 0. What a full table means is in README.md.
 */
#ifndef FAIRLEAD_CONN_MAPS_H
#define FAIRLEAD_CONN_MAPS_H

#include "common/address.h"
#include "packet/conn/types.h"
#include "packet/types.h"

/* How many buckets the clients' index has: any number from 2. The sizes of the maps follow from it.
 */
const volatile __u32 conn_buckets4 = 2;
const volatile __u32 conn_buckets6 = 2;
/* The bits that the number of a record may have, see reply/word.h. */
const volatile __u32 conn_index_mask4 = 15;
const volatile __u32 conn_index_mask6 = 15;

#define CONN_ARRAY(name, value_type)               \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, 1);            \
		__type(key, __u32);                \
		__type(value, struct value_type);  \
	} name SEC(".maps")

/* Records: CONN_SLOTS for each bucket. */
CONN_ARRAY(fl_conn4, conn4);
CONN_ARRAY(fl_conn6, conn6);

/* Packets and bytes of each record. One element: they are not counted. */
CONN_ARRAY(fl_conn_traf4, conn_traffic);
CONN_ARRAY(fl_conn_traf6, conn_traffic);

/* Client -> frontend. The slot of a word says which record it leads to. */
CONN_ARRAY(fl_client4, client_bucket);
CONN_ARRAY(fl_client6, client_bucket);

/*
 * Backend -> client or SNAT address; of a masqueraded connection both. A connection that has the
 * word has the port.
 */
CONN_ARRAY(fl_reply4, reply_bucket);
CONN_ARRAY(fl_reply6, reply_bucket);

#define MOST_CPUS 1024

/* Of each CPU, in this order: IPv4, IPv6. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2 * MOST_CPUS);
	__type(key, __u32);
	__type(value, struct conn_counts);
} fl_conn_count SEC(".maps");

static __always_inline __u32 conn_buckets(enum family family)
{
	return family == FAMILY_IPV4 ? conn_buckets4 : conn_buckets6;
}

static __always_inline __u32 index_mask(enum family family)
{
	return family == FAMILY_IPV4 ? conn_index_mask4 : conn_index_mask6;
}

/*
 * A masqueraded connection has two words there. A flood takes nearly all slots of clients, because
 * the oldest gives way there. Replies have nothing to give, so they have more buckets, which are
 * seldom full then.
 */
static __always_inline __u32 reply_buckets(enum family family)
{
	return 2 * conn_buckets(family) + 3 * conn_buckets(family) / 8;
}

/* A function for each map: the constant `family` leaves one of both. */
#define CONN_ELEMENT(function, map)                                                  \
	static __always_inline void *function(__u32 index, enum family family)       \
	{                                                                            \
		return family == FAMILY_IPV4 ? bpf_map_lookup_elem(&map##4, &index)  \
					     : bpf_map_lookup_elem(&map##6, &index); \
	}

CONN_ELEMENT(conn_at, fl_conn)
CONN_ELEMENT(conn_traffic_at, fl_conn_traf)
CONN_ELEMENT(client_bucket_at, fl_client)
CONN_ELEMENT(reply_bucket_at, fl_reply)

#endif
