/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sets and backends: slot -> id -> a copy of the backend. Knows no frontends and no sockets. */
#ifndef FAIRLEAD_BACKEND_H
#define FAIRLEAD_BACKEND_H

#include "common/address.h"
#include "common/maps.h"

#define NS_PER_SECOND 1000000000ULL

/* Steps of a binary search over the blocks of 65,535 slots, the most a set has. */
#define BINARY_SEARCH_STEPS 12

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

/* Id 0 is never used: it reads as BACKEND_FREE. Says nothing of whether the backend may be used. */
static __always_inline bool read_backend(__u32 id, enum family family, struct backend *b)
{
	return family == FAMILY_IPV4 ? read_backend4(id, b) : read_backend6(id, b);
}

/*
 * No offset below is a variable: without CAP_PERFMON the verifier follows each pointer sum also as
 * it would go if the processor guessed wrong, and from then on tells apart states that are alike.
 * Functions with `fl_` are global: the verifier walks them once and not at each call.
 */

static __always_inline const struct slot_block *block_at(__u32 number)
{
	return bpf_map_lookup_elem(&fl_slot_block, &number);
}

/* Two neighbours in one word: of the lower slot, the lower half. */
static __always_inline __u64 pair_at(const struct slot_block *block, __u32 pair)
{
	__u64 ids;

	__builtin_memcpy(&ids, __builtin_assume_aligned(&block->backend_id[2 * pair], 8),
			 sizeof(ids));
	return ids;
}

/* All ones if the bit is 1, else 0, and no branch. */
static __always_inline __u64 mask_of(__u32 number, __u32 bit)
{
	__u64 mask = -(__u64)(number >> bit & 1);

	barrier_var(mask); /* the compiler would see through it, and branch */
	return mask;
}

static __always_inline __u64 either(__u64 if_clear, __u64 if_set, __u64 mask)
{
	return if_clear ^ ((if_clear ^ if_set) & mask);
}

/* block->backend_id[slot], from bit to bit of the slot's number. */
static __always_inline __u32 id_at(const struct slot_block *block, __u32 slot)
{
	__u64 first = mask_of(slot, 3), second = mask_of(slot, 2), third = mask_of(slot, 1);
	__u64 a = either(pair_at(block, 0), pair_at(block, 4), first);
	__u64 b = either(pair_at(block, 1), pair_at(block, 5), first);
	__u64 c = either(pair_at(block, 2), pair_at(block, 6), first);
	__u64 d = either(pair_at(block, 3), pair_at(block, 7), first);

	_Static_assert(SLOTS_PER_BLOCK == 16, "eight pairs");
	return either(either(a, c, second), either(b, d, second), third) >> 32 * (slot & 1);
}

/*
 * Id in one slot of a set, 0 if there is no such block. Every slot is equally likely, to within
 * slots / 2^32: multiply and shift, no division.
 */
__noinline __u32 fl_random_slot(__u32 first_block, __u32 slots)
{
	__u32 slot = ((__u64)bpf_get_prandom_u32() * slots) >> 32;
	const struct slot_block *block = block_at(first_block + slot / SLOTS_PER_BLOCK);

	return block ? id_at(block, slot % SLOTS_PER_BLOCK) : 0;
}

/* 1 or 0, from the borrow of the difference and not from a branch. */
static __always_inline __u32 is_less(__u32 a, __u32 b)
{
	__u64 difference = (__u64)a - b;

	barrier_var(difference); /* the compiler would see through it, and branch */
	return difference >> 63;
}

/* Slots past the end of a set are 0, which is no id. */
static __always_inline bool has_id(const struct slot_block *block, __u32 id)
{
	__u64 found = 0; /* its highest bit: one of the differences was 0 */

#pragma clang loop unroll(full)
	for (int i = 0; i < SLOTS_PER_BLOCK; i++) {
		__u64 below = (__u64)(block->backend_id[i] ^ id) - 1;

		barrier_var(below);
		found |= below;
	}
	return found >> 63;
}

/*
 * Slots are in ascending order (types.h), so an id can only be in the last block that begins with
 * it or a lower one, which a binary search finds. The set must not be empty. The verifier walks
 * this once, because no branch depends on what was found so far nor on a number it could come to
 * know
 * (`count -= half` is not `count = half` to it).
 */
__noinline int fl_is_member(__u32 first_block, __u32 slots, __u32 id)
{
	__u32 first = first_block, count = (slots + SLOTS_PER_BLOCK - 1) / SLOTS_PER_BLOCK;
	const struct slot_block *block;

#pragma clang loop unroll(full)
	for (int i = 0; i < BINARY_SEARCH_STEPS; i++) {
		__u32 half = count / 2;

		barrier_var(
			half); /* else both ends of the loop become one, and it is not unrolled */
		if (!half)
			break;
		block = block_at(first + half);
		if (!block)
			return false;
		first += half * !is_less(id, block->backend_id[0]);
		count -= half;
	}
	block = block_at(first);
	return block && has_id(block, id);
}

#endif
