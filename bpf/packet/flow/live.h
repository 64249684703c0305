/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts the living flows of backends, see struct backend_flows: what least connections compares.
 */
#ifndef FAIRLEAD_LIVE_H
#define FAIRLEAD_LIVE_H

#include "common/backend.h"

/* Whether a flow that began then was there when the sweep's round began. */
static __always_inline bool is_older(__u32 born_seconds)
{
	const struct backend_flows *round = bpf_map_lookup_elem(&fl_be_flows, &runtime_key);

	return round && born_seconds < round->met;
}

/*
 * A flow of packets is made, and never open: open connections are those of sockets. Global, see
 * backend.h: several functions make flows.
 */
__noinline int fl_count_flow(__u32 backend_id, __u32 born_seconds)
{
	struct backend_stat *stat = bpf_map_lookup_elem(&fl_be_stat, &backend_id);
	struct backend_flows *flows = bpf_map_lookup_elem(&fl_be_flows, &backend_id);

	if (stat) {
		__sync_fetch_and_add(&stat->connections, 1);
		__sync_fetch_and_add(&stat->closed, 1);
	}
	if (flows)
		__sync_fetch_and_add(is_older(born_seconds) ? &flows->older : &flows->newer, 1);
	return 0;
}

/* NULL: the id may belong to another backend by now, see count_end(). */
static __always_inline struct backend_flows *flows_of(__u32 backend_id, __u32 service_id,
						      __u16 generation, enum family family)
{
	struct backend b;

	if (!read_backend(backend_id, family, &b) || b.state == BACKEND_FREE ||
	    b.generation != generation || b.service_id != service_id)
		return NULL;
	return bpf_map_lookup_elem(&fl_be_flows, &backend_id);
}

/* The flow leg is deleted. Global, see backend.h: many functions delete flows. */
__noinline int fl_count_end(__u32 backend_id, __u32 service_id, __u32 generation,
			    __u32 born_seconds, __u32 family)
{
	struct backend_flows *flows =
		family == FAMILY_IPV4 ? flows_of(backend_id, service_id, generation, FAMILY_IPV4)
				      : flows_of(backend_id, service_id, generation, FAMILY_IPV6);

	if (!flows)
		return 0;
	if (!is_older(born_seconds)) {
		__sync_fetch_and_add(&flows->newer, -1);
		return 0;
	}
	__sync_fetch_and_add(&flows->ended, 1);
	__sync_fetch_and_add(&flows->older, -1);
	return 0;
}

#endif
