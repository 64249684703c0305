/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frontends whose backends are all on this node: until the second ends their packets are left to tc
 * without a look for their connections. To leave a packet is never wrong: tc serves connections to
 * former backends elsewhere, too.
 */
#ifndef FAIRLEAD_XDP_LOCAL_H
#define FAIRLEAD_XDP_LOCAL_H

#include "common/backend.h"
#include "packet/packet.h"
#include "packet/xdp/known.h"

/* By the device, too: rules differ for pods and for clients from outside. */
static __always_inline void set_service_hash(struct packet *p, enum family family)
{
	__u64 hash = mix_address(p->env.secret ^ p->now, &p->wire.destination, family);

	p->service_hash = mix(mix(hash, port_mark(p, p->wire.destination_port)), p->came_by);
}

static __always_inline __u64 *local_at(const struct packet *p)
{
	struct known *k = known();

	return k ? &k->local[p->service_hash >> 32 & (LOCALS - 1)] : NULL;
}

static __always_inline bool is_known_local(struct packet *p, enum family family)
{
	const __u64 *local;

	set_service_hash(p, family);
	local = local_at(p);
	if (!local || (*local ^ p->service_hash) > WAY_NUMBER)
		return false;
	count_reason(*local & (LEFT_BECAUSE - 1));
	return true;
}

/* False also for sets of more than one block: to look at them would take long. */
static __always_inline bool are_local(const struct traffic_rule *rule, enum family family)
{
	const struct slot_block *block = block_at(rule->block);
	struct backend b;

	if (!block || !rule->members || rule->members >= SLOTS_PER_BLOCK)
		return false;
#pragma clang loop unroll(disable)
	for (__u32 i = 1; i < SLOTS_PER_BLOCK && i <= rule->members; i++) {
		if (!read_backend(block->slot[i], family, &b) || !b.is_local)
			return false;
	}
	return true;
}

/* The backend of p->choice has no way from here: then none of the set has one. */
static __always_inline int note_local(struct packet *p, enum family family)
{
	__u32 number = number_of(p, p->frame_hash);
	__u64 *local = local_at(p);

	if (local && number & LEFT_BECAUSE && are_local(&p->choice.rule, family))
		*local = (p->service_hash & ~WAY_NUMBER) | number;
	return 0;
}

/* Global, so that it takes no stack beside what calls it. */
__noinline int fl_note_local4(void)
{
	struct packet *p = this_packet();

	return p ? note_local(p, FAMILY_IPV4) : 0;
}

__noinline int fl_note_local6(void)
{
	struct packet *p = this_packet();

	return p ? note_local(p, FAMILY_IPV6) : 0;
}

#endif
