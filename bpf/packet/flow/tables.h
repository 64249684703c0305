/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Looks up, stores and deletes the legs of flows, for both families and both tiers of tables.
 * Decides nothing.
 */
#ifndef FAIRLEAD_TABLES_H
#define FAIRLEAD_TABLES_H

#include <linux/errno.h>

#include "packet/packet.h"

/* Established flows, and half-open ones. */
enum tier { TIER_MAIN, TIER_NEW } PACKED_ENUM;

static __always_inline struct tuple4 tuple4_of(const struct tuple *t)
{
	struct tuple4 key = {
		.source_port = t->source_port,
		.destination_port = t->destination_port,
		.protocol = t->protocol,
	};

	__builtin_memcpy(key.source, &t->source.word[3], sizeof(key.source));
	__builtin_memcpy(key.destination, &t->destination.word[3], sizeof(key.destination));
	return key;
}

/* Of the two maps, each for one family, the constant `family` leaves one. */
static __always_inline void *find_in(void *map4, void *map6, const struct tuple *t,
				     enum family family)
{
	struct tuple4 key;

	if (family == FAMILY_IPV6)
		return bpf_map_lookup_elem(map6, t);
	key = tuple4_of(t);
	return bpf_map_lookup_elem(map4, &key);
}

static __always_inline long put_in(void *map4, void *map6, const struct tuple *t, const void *leg,
				   __u64 flags, enum family family)
{
	struct tuple4 key;

	if (family == FAMILY_IPV6)
		return bpf_map_update_elem(map6, t, leg, flags);
	key = tuple4_of(t);
	return bpf_map_update_elem(map4, &key, leg, flags);
}

static __always_inline long delete_in(void *map4, void *map6, const struct tuple *t,
				      enum family family)
{
	struct tuple4 key;

	if (family == FAMILY_IPV6)
		return bpf_map_delete_elem(map6, t);
	key = tuple4_of(t);
	return bpf_map_delete_elem(map4, &key);
}

#define TABLE_OF(leg)                                                                             \
	static __always_inline struct leg *find_##leg(enum tier tier, const struct tuple *t,      \
						      enum family family)                         \
	{                                                                                         \
		if (tier == TIER_MAIN)                                                            \
			return find_in(&fl_##leg##4, &fl_##leg##6, t, family);                    \
		return find_in(&fl_new_##leg##4, &fl_new_##leg##6, t, family);                    \
	}                                                                                         \
                                                                                                  \
	static __always_inline long put_##leg(enum tier tier, const struct tuple *t,              \
					      const void *value, __u64 flags, enum family family) \
	{                                                                                         \
		if (tier == TIER_MAIN)                                                            \
			return put_in(&fl_##leg##4, &fl_##leg##6, t, value, flags, family);       \
		return put_in(&fl_new_##leg##4, &fl_new_##leg##6, t, value, flags, family);       \
	}                                                                                         \
                                                                                                  \
	static __always_inline long delete_##leg(enum tier tier, const struct tuple *t,           \
						 enum family family)                              \
	{                                                                                         \
		if (tier == TIER_MAIN)                                                            \
			return delete_in(&fl_##leg##4, &fl_##leg##6, t, family);                  \
		return delete_in(&fl_new_##leg##4, &fl_new_##leg##6, t, family);                  \
	}

TABLE_OF(flow)
TABLE_OF(nat)
TABLE_OF(snat)

/* --- addresses of values -----------------------------------------------------------------------
 */

static __always_inline void get_address(const __u8 *from, struct address *a, enum family family)
{
	if (family == FAMILY_IPV4)
		set_ipv4(a, *(const __be32 *)as_address(from));
	else
		*a = *as_address(from);
}

static __always_inline void put_address(__u8 *to, const struct address *a, enum family family)
{
	__be32 *words = __builtin_assume_aligned(to, 4);

	if (family == FAMILY_IPV4)
		words[0] = a->word[3];
	else
		__builtin_memcpy(words, a->word, sizeof(a->word));
}

static __always_inline tcp_progress *progress_of(struct flow *flow, enum family family)
{
	return family == FAMILY_IPV4 ? &((struct flow4 *)flow)->progress
				     : &((struct flow6 *)flow)->progress;
}

/* Where a value of each leg has its addresses. */
static __always_inline __u8 *backend_of(struct flow *flow)
{
	return ((struct flow6 *)flow)->backend_address;
}

static __always_inline __u8 *frontend_of(struct nat *nat)
{
	return ((struct nat6 *)nat)->frontend_address;
}

static __always_inline __u8 *snat_address_of(struct nat *nat, enum family family)
{
	return family == FAMILY_IPV4 ? ((struct nat4 *)nat)->snat_address
				     : ((struct nat6 *)nat)->snat_address;
}

static __always_inline __u8 *client_of(struct snat *snat)
{
	return ((struct snat6 *)snat)->client_address;
}

_Static_assert(offsetof(struct flow4, backend_address) == offsetof(struct flow6, backend_address),
	       "backend_of");
_Static_assert(offsetof(struct nat4, frontend_address) == offsetof(struct nat6, frontend_address),
	       "frontend_of");
_Static_assert(offsetof(struct snat4, client_address) == offsetof(struct snat6, client_address),
	       "client_of");

/* --- keys --------------------------------------------------------------------------------------
 */

static __always_inline bool is_lower_address(const struct address *a, const struct address *b)
{
#pragma clang loop unroll(full)
	for (int i = 0; i < 4; i++) {
		if (a->word[i] != b->word[i])
			return bpf_ntohl(a->word[i]) < bpf_ntohl(b->word[i]);
	}
	return false;
}

/* Whether the source is the lower side, as in the key of a nat leg. */
static __always_inline bool ascends(const struct tuple *t)
{
	if (is_same_address(&t->source, &t->destination))
		return t->source_port < t->destination_port;
	return is_lower_address(&t->source, &t->destination);
}

/* Key of the nat leg of a packet between a client and a backend. */
static __always_inline void set_sorted(const struct tuple *t, struct tuple *key)
{
	if (ascends(t))
		*key = *t;
	else
		reverse(t, key);
}

#endif
