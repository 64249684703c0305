/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Backends that processes of this node have sent datagrams to, and the device that each is behind.
 * The socket may insist on another device (IP_UNICAST_IF, IP_PKTINFO), which no hook of sockets can
 * see: so the program at that device's egress knows the backends, see packet/uplink/send_on.h.
 */
#ifndef FAIRLEAD_SENT_TO_H
#define FAIRLEAD_SENT_TO_H

#include "common/address.h"

#define SENT_TO	    4096
#define SECOND_BITS 12

/*
 * One word for each backend: 20 bits of the hash of its address, the last SECOND_BITS bits of the
 * second in which the routes were asked, and in the lower half the ifindex that they lead to. That
 * is 0 if nobody has asked. Routes change, so that they are asked once a second. Written and read
 * by the programs of sockets and of packets. Key: other bits of the hash. Two backends with one key
 * take turns: then a socket that is connected, and insists on a device, may lose what it sends.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SENT_TO);
	__type(key, __u32);
	__type(value, __u64);
} fl_sent_to SEC(".maps");

static __always_inline __u64 hash_backend(const struct address *a, enum family family)
{
	__u64 hash = a->word[3];

	if (family == FAMILY_IPV6)
		hash = ((__u64)a->word[0] << 32 | a->word[1]) * 0xbf58476d1ce4e5b9ULL ^
		       ((__u64)a->word[2] << 32 | a->word[3]);
	return hash * 0x9e3779b97f4a7c15ULL;
}

static __always_inline __u64 *sent_to(__u64 hash)
{
	__u32 key = (__u32)hash >> 20;

	return bpf_map_lookup_elem(&fl_sent_to, &key);
}

static __always_inline bool has_backend(__u64 entry, __u64 hash)
{
	return (entry ^ hash) >> (32 + SECOND_BITS) == 0;
}

static __always_inline __u64 sent_to_of(__u64 hash, __u32 ifindex, __u32 second)
{
	__u64 bits = second & ((1 << SECOND_BITS) - 1);

	return hash >> (32 + SECOND_BITS) << (32 + SECOND_BITS) | bits << 32 | ifindex;
}

/* All in one store: no reader finds the device of another backend. */
static __always_inline void set_sent_to(__u64 *entry, __u64 value)
{
	*(volatile __u64 *)entry = value;
}

#endif
