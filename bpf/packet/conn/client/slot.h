/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A client's slot: the word that says whose its record is, and who may change it. Every change of a
 * word is one atomic instruction, which orders all reads and writes around it for all CPUs.
 */
#ifndef FAIRLEAD_CONN_SLOT_H
#define FAIRLEAD_CONN_SLOT_H

#include "packet/conn/count.h"
#include "packet/conn/record.h"

/* Of the record `index`, as its word was read, or as this CPU wrote it. 0: there is none. */
struct conn_slot {
	__u32 index;
	__u32 word;
};

/* So that the verifier learns it: the compiler knows, and would leave the comparison out. */
static __always_inline bool is_slot(__u32 *slot)
{
	asm volatile("" : "+r"(*slot));
	return *slot < CONN_SLOTS;
}

static __always_inline __u32 *client_word(__u32 index, enum family family)
{
	struct client_bucket *b = client_bucket_at(index / CONN_SLOTS, family);
	__u32 slot = index % CONN_SLOTS;

	return b && is_slot(&slot) ? &b->word[slot] : NULL;
}

/* The word of a slot as it is now; 0: there is no such slot. */
static __always_inline void read_word(struct conn_slot *slot, enum family family)
{
	const volatile __u32 *word = client_word(slot->index, family);

	slot->word = word ? *word : 0;
}

/* Whether the word was still `slot->word`; then it is `word` now. */
static __always_inline bool swap_word(struct conn_slot *slot, __u32 word, enum family family)
{
	__u32 *at = client_word(slot->index, family);

	if (!at || __sync_val_compare_and_swap(at, slot->word, word) != slot->word)
		return false;
	slot->word = word;
	return true;
}

/* Of a word that is BUSY by this CPU, so that no other one changes it. */
static __always_inline void set_word(struct conn_slot *slot, __u32 word, enum family family)
{
	__u32 *at = client_word(slot->index, family);

	if (at)
		__sync_lock_test_and_set(at, word);
	slot->word = word;
}

/* From now on the record is this CPU's alone. It may be another connection's by now: read it. */
static __always_inline bool lock_slot(struct conn_slot *slot, enum family family)
{
	return !(slot->word & CONN_BUSY) && swap_word(slot, slot->word | CONN_BUSY, family);
}

static __always_inline void unlock_slot(struct conn_slot *slot, enum family family)
{
	set_word(slot, slot->word & ~CONN_BUSY, family);
}

/* Both sides have confirmed the connection: no other one takes its slot. Another CPU may do it. */
static __always_inline void confirm_slot(struct conn_slot *slot, enum family family)
{
	if ((slot->word & (CONN_HALF | CONN_BUSY)) == CONN_HALF &&
	    swap_word(slot, slot->word & ~CONN_HALF, family))
		COUNT_CONN(half_gone, family);
}

/* The key is in this bucket, or is no longer: counted if it is not its first one. */
static __always_inline void count_elsewhere(const struct conn_key *key, __u32 bucket, __s32 by,
					    enum family family)
{
	struct client_bucket *b;

	if (bucket == key->first)
		return;
	b = client_bucket_at(key->first, family);
	if (b)
		__sync_fetch_and_add(&b->elsewhere, by);
}

#endif
