/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a reply slot may become when its connection ends: nobody else gets the tuple before a time,
 * because the backend may still answer. The word of a tomb has 17 bits of the key's tag, and that
 * time in units of 64 ticks, 1.1 seconds. The unit's number goes round after 146 minutes, and
 * nothing removes a tomb whose time is over. So it counts only if its time is no further than any
 * tomb's may be, and that is half a round at most.
 */
#ifndef FAIRLEAD_CONN_TOMB_H
#define FAIRLEAD_CONN_TOMB_H

#include "packet/conn/reply/word.h"

#define TOMB_UNIT_SHIFT 6
#define TOMB_UNTIL	0x00001fffu
#define TOMB_TAG	0x3fffe000u
/* Units: 73 minutes. */
#define TOMB_LONGEST 0x0fffu

#define NEVER	     0xffffffffu

static __always_inline __u32 tomb_tag(const struct conn_key *key)
{
	return key->tag << 1 & TOMB_TAG;
}

static __always_inline __u32 at_most(__u32 units, __u32 most)
{
	return is_less(units, most) ? units : most;
}

/* Of all tombs: two units more for what is rounded up, and one for a CPU whose tick is older. */
static __always_inline __u32 longest_wait(__u32 udp_new)
{
	return at_most((udp_new >> TOMB_UNIT_SHIFT) + 3, TOMB_LONGEST);
}

/* `until` is a tick after `now`. */
static __always_inline __u32 tomb_of(const struct conn_key *key, __u32 until, __u32 now)
{
	__u32 unit = now >> TOMB_UNIT_SHIFT;
	__u32 left =
		((until - now) + (now - (unit << TOMB_UNIT_SHIFT)) + (1 << TOMB_UNIT_SHIFT) - 1) >>
		TOMB_UNIT_SHIFT;

	return REPLY_TOMB | tomb_tag(key) | ((unit + at_most(left, TOMB_LONGEST - 1)) & TOMB_UNTIL);
}

/* Units until the word is free. */
static __always_inline __u32 wait_for(__u32 word, __u32 now, __u32 longest)
{
	__u32 left = (word - (now >> TOMB_UNIT_SHIFT)) & TOMB_UNTIL;
	__u32 is_tomb = is_set(word & REPLY_TOMB), is_later = 1 - is_less(longest, left);
	__u32 is_of_conn = is_set(word) & (is_tomb ^ 1);

	return left * (is_tomb & is_later) | -is_of_conn;
}

#endif
