/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Both sides of a packet, and the keyed hash of them. No maps. */
#ifndef FAIRLEAD_TUPLE_H
#define FAIRLEAD_TUPLE_H

#include "common/address.h"
#include "packet/types.h"

/* As on the wire. IPv4 addresses are v4-mapped. */
struct tuple {
	struct address source;
	struct address destination;
	__u16 source_port;
	__u16 destination_port;
	enum l4_protocol protocol;
	__u8 pad[3];
};

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

static __always_inline __u64 mix_address(__u64 hash, const struct address *a, enum family family)
{
	if (family == FAMILY_IPV4)
		return mix(hash, a->word[3]);
	hash = mix(hash, (__u64)a->word[0] << 32 | a->word[1]);
	return mix(hash, (__u64)a->word[2] << 32 | a->word[3]);
}

static __always_inline __u64 hash_tuple(__u64 secret, const struct tuple *t, enum family family)
{
	__u64 hash = mix_address(secret, &t->source, family);

	hash = mix_address(hash, &t->destination, family);
	return mix(hash, (__u64)t->source_port << 32 | t->destination_port << 8 | t->protocol);
}

static __always_inline void reverse(const struct tuple *from, struct tuple *to)
{
	to->source = from->destination;
	to->destination = from->source;
	to->source_port = from->destination_port;
	to->destination_port = from->source_port;
	to->protocol = from->protocol;
}

#endif
