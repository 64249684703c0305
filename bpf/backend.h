/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sets and backends: slot -> id -> a copy of the backend. Knows no frontends and no sockets. */
#ifndef FAIRLEAD_BACKEND_H
#define FAIRLEAD_BACKEND_H

#include "address.h"
#include "maps.h"

#define NS_PER_SECOND 1000000000ULL

/* Halvings that bring 65,535 slots, the most a set has, down to one. */
#define HALVINGS 16

/* Family-neutral copy of one backend. */
struct backend {
	struct address address;
	__u32 service_id;
	__u16 port;
	__u16 generation;
	enum backend_state state;
};

/* False if the id is none. Says nothing of whether the backend may be used. */
static __always_inline bool read_backend(__u32 id, enum family family, struct backend *b)
{
	if (!id)
		return false;
	if (family == IPV4) {
		struct backend4 *from = bpf_map_lookup_elem(&fl_backend4, &id);
		__be32 ipv4;

		if (!from)
			return false;
		__builtin_memcpy(&ipv4, from->address, sizeof(ipv4));
		set_ipv4(&b->address, ipv4);
		b->service_id = from->service_id;
		b->port = from->port;
		b->generation = from->generation;
		b->state = from->state;
	} else {
		struct backend6 *from = bpf_map_lookup_elem(&fl_backend6, &id);

		if (!from)
			return false;
		__builtin_memcpy(b->address.byte, from->address, sizeof(from->address));
		b->service_id = from->service_id;
		b->port = from->port;
		b->generation = from->generation;
		b->state = from->state;
	}
	return true;
}

/* Backend id in a slot; 0 if there is no such slot. */
static __always_inline __u32 backend_at(struct set_ref set, __u32 slot)
{
	__u32 number = set.line + slot / SLOTS_PER_LINE;
	struct set_line *line = bpf_map_lookup_elem(&fl_set_line, &number);

	return line ? line->backend_id[slot % SLOTS_PER_LINE] : 0;
}

/* Every slot is equally likely, to within slots / 2^32: multiply and shift, no division. */
static __always_inline __u32 random_member(struct set_ref set)
{
	return backend_at(set, ((__u64)bpf_get_prandom_u32() * set.slots) >> 32);
}

/* Slots are in ascending order (types.h), so this is 16 array look-ups at most, and exact. */
static __always_inline bool is_member(struct set_ref set, __u32 id)
{
	__u32 low = 0, count = set.slots;

	for (int i = 0; i < HALVINGS && count > 0; i++) {
		__u32 half = count / 2;
		__u32 found = backend_at(set, low + half);

		if (found == id)
			return true;
		if (found < id) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return false;
}

#endif
