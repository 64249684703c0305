/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a reply slot may become when its connection ends: nobody else gets the tuple before a tick,
 * because the backend may still answer. Lower half: the tag. No maps.
 */
#ifndef FAIRLEAD_CONN_TOMB_H
#define FAIRLEAD_CONN_TOMB_H

#include "common/address.h"
#include "packet/conn/types.h"

#define NEVER 0xffffffffu

static __always_inline __u64 tomb_of(__u32 tag, __u32 until)
{
	return (__u64)(CONN_TOMB | (until & (CONN_TOMB - 1))) << 32 | tag;
}

/* Ticks until the word is free. */
static __always_inline __u32 wait_for(__u64 word, __u32 now)
{
	__u32 high = word >> 32, left = (high - now) << 2; /* of 30 bits */
	__u32 is_tomb = is_set(high & CONN_TOMB), is_later = is_less(left, 1u << 31);
	__u32 is_of_conn = is_set(high | (__u32)word) & (is_tomb ^ 1);

	return (left >> 2) * (is_tomb & is_later) | -is_of_conn;
}

#endif
