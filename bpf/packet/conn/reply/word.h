/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A word of the replies' index. 0: free. Else the number of the record, in as many bits as the
 * table needs, and above it what is left of the key's tag, never 0. The largest table leaves four
 * bits. So two keys may have one word. It tells which of its record's two tuples it is of: a
 * connection that frees one of them must not take the word of the other. A tomb has no record, see
 * tomb.h.
 */
#ifndef FAIRLEAD_CONN_WORD_H
#define FAIRLEAD_CONN_WORD_H

#include "packet/conn/record.h"

/* Above the 29 bits of CONN_TAG. The highest bit is not used. */
#define REPLY_MIDDLE 0x20000000u
#define REPLY_TOMB   0x40000000u

/* As is_slot(). */
static __always_inline bool is_reply_slot(__u32 *slot)
{
	asm volatile("" : "+r"(*slot));
	return *slot < REPLY_SLOTS;
}

/* Of the tag of a key. */
static __always_inline __u32 reply_tag_of(__u32 tag, enum family family)
{
	__u32 mask = index_mask(family);

	tag &= ~mask;
	return tag + (mask + 1) * (1 - is_set(tag));
}

static __always_inline __u32 reply_tag(const struct conn_key *key, enum family family)
{
	return reply_tag_of(key->tag, family);
}

static __always_inline __u32 reply_word(__u32 tag, __u32 index, enum conn_side side)
{
	return tag | index | (side == OF_MIDDLE ? REPLY_MIDDLE : 0);
}

static __always_inline __u32 reply_index(__u32 word, enum family family)
{
	return word & index_mask(family);
}

/* Neither a free word nor a tomb has such a tag. */
static __always_inline bool has_reply_tag(__u32 word, __u32 tag, enum family family)
{
	return (word & ~(index_mask(family) | REPLY_MIDDLE)) == tag;
}

#endif
