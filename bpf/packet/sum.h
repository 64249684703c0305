/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sums of 16-bit words in ones' complement, as the words are in memory: parts of checksums. */
#ifndef FAIRLEAD_SUM_H
#define FAIRLEAD_SUM_H

#include "packet/packet.h"

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* Half of it: x such that x + x is the sum. A rotation, as 2 * 2^15 is 1 modulo 2^16 - 1. */
static __always_inline __u16 half(__u16 sum)
{
	return sum >> 1 | sum << 15;
}

static __always_inline __u64 sum_of_addresses(const struct tuple *t, enum family family)
{
	__u64 sum = (__u64)t->source.word[3] + t->destination.word[3];

	if (family == FAMILY_IPV6) {
		sum += (__u64)t->source.word[0] + t->source.word[1] + t->source.word[2];
		sum += (__u64)t->destination.word[0] + t->destination.word[1] +
		       t->destination.word[2];
	}
	return sum;
}

/* Of the header that a checksum covers besides the packet. */
static __always_inline __u64 pseudo_sum(const struct tuple *t, __u16 length, __u8 protocol,
					enum family family)
{
	return sum_of_addresses(t, family) + bpf_htons(length) + bpf_htons(protocol);
}

#endif
