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

static __always_inline bool read_backend4(__u32 id, struct backend *b)
{
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
	return true;
}

static __always_inline bool read_backend6(__u32 id, struct backend *b)
{
	struct backend6 *from = bpf_map_lookup_elem(&fl_backend6, &id);

	if (!from)
		return false;
	__builtin_memcpy(b->address.byte, from->address, sizeof(from->address));
	b->service_id = from->service_id;
	b->port = from->port;
	b->generation = from->generation;
	b->state = from->state;
	return true;
}

/* Id 0 is never used: it reads as FREE. Says nothing of whether the backend may be used. */
static __always_inline bool read_backend(__u32 id, enum family family, struct backend *b)
{
	return family == IPV4 ? read_backend4(id, b) : read_backend6(id, b);
}

/* The slot in its line; NULL if there is no such line. */
static __always_inline const __u32 *slot_at(struct set_ref set, __u32 slot)
{
	__u32 number = set.line + slot / SLOTS_PER_LINE;
	struct set_line *line = bpf_map_lookup_elem(&fl_set_line, &number);

	return line ? &line->backend_id[slot % SLOTS_PER_LINE] : NULL;
}

/* Every slot is equally likely, to within slots / 2^32: multiply and shift, no division. */
static __always_inline __u32 random_member(struct set_ref set)
{
	const __u32 *slot = slot_at(set, ((__u64)bpf_get_prandom_u32() * set.slots) >> 32);

	return slot ? *slot : 0;
}

/* 1 or 0, from the borrow of the difference and not from a branch. */
static __always_inline __u32 is_less(__u32 a, __u32 b)
{
	__u64 difference = (__u64)a - b;

	barrier_var(difference); /* the compiler would see through it, and branch */
	return difference >> 63;
}

/*
 * Slots are in ascending order (types.h), so halving is exact and takes log2(slots) array look-ups.
 * The set must not be empty. The verifier walks the loop once, because no branch depends on what
 * was found so far nor on a number it could come to know (`count -= half` is not `count = half` to
 * it).
 */
static __noinline bool is_member(struct set_ref set, __u32 id)
{
	__u32 first = 0, count = set.slots;
	const __u32 *slot;

	for (int i = 0; i < HALVINGS && count > 1; i++) {
		__u32 half = count / 2;

		slot = slot_at(set, first + half - 1);
		if (!slot)
			return false;
		first += half * is_less(*slot, id);
		count -= half;
	}
	slot = slot_at(set, first);
	return slot && *slot == id;
}

#endif
