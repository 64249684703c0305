/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sets and backends: slot -> id -> a copy of the backend. No frontends, no sockets. */
#ifndef FAIRLEAD_BACKEND_H
#define FAIRLEAD_BACKEND_H

#include "common/address.h"
#include "common/maps.h"

#define NS_PER_SECOND 1000000000ULL

/* Steps of a binary search over 4,096 blocks: a set may have 65,535 members. */
#define BINARY_SEARCH_STEPS 12

/* Family-neutral copy of one backend. */
struct backend {
	struct address address;
	__u32 service_id;
	__u16 port;
	__u16 generation;
	enum backend_state state;
	__u8 is_local; /* runs on this node */
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
	b->is_local = from->local;
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
	b->is_local = from->local;
	return true;
}

/* Id 0 is never used: it reads as BACKEND_FREE. The caller checks whether the backend may be used.
 */
static __always_inline bool read_backend(__u32 id, enum family family, struct backend *b)
{
	return family == FAMILY_IPV4 ? read_backend4(id, b) : read_backend6(id, b);
}

/* The backend is not in use any more, or the id belongs to another one by now. */
static __always_inline bool is_gone(__u32 id, __u32 service_id, __u16 generation,
				    enum family family)
{
	struct backend b;

	if (!read_backend(id, family, &b))
		return false;
	if (b.generation != generation || b.service_id != service_id)
		return true;
	return b.state != BACKEND_ACTIVE && b.state != BACKEND_TERMINATING;
}

/*
 * Functions named `fl_*` are global: the verifier checks them once, for any arguments, instead of
 * at each call.
 */

static __always_inline const struct slot_block *block_at(__u32 number)
{
	return bpf_map_lookup_elem(&fl_slot_block, &number);
}

/* Service id of the run; 0, which is never an id, if there is no such block. */
static __always_inline __u32 service_of_run(__u32 first_block)
{
	const struct slot_block *block = block_at(first_block);

	return block ? block->slot[0] : 0;
}

/*
 * Members ascend, so an id can only be in the last block that starts with it or with a lower one.
 * The first block, which starts with the service id, is never compared.
 */
__noinline int fl_is_member(__u32 first_block, __u32 members, __u32 id)
{
	__u32 low = 0, size = members / SLOTS_PER_BLOCK + 1, found = 0;
	const struct slot_block *block;

	for (int step = 0; step < BINARY_SEARCH_STEPS && size > 1; step++) {
		__u32 half = size / 2;

		block = block_at(first_block + low + half);
		if (!block)
			return false;
		/* Slots behind the last member are 0. */
		low += half * is_less(block->slot[0] - 1, id);
		size -= half;
	}
	block = block_at(first_block + low);
	if (!block || !id)
		return false;
	/* The first slot of the first block is none of a member. */
	for (int i = 0; i < SLOTS_PER_BLOCK; i++)
		found |= is_less(block->slot[i] ^ id, 1) & (i ? 1 : is_set(low));
	return found;
}

#endif
