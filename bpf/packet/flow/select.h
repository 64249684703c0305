/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* First packets: what select.h of common/ is asked, and what it remembers. */
#ifndef FAIRLEAD_FLOW_SELECT_H
#define FAIRLEAD_FLOW_SELECT_H

#include "packet/hook.h"
#include "packet/uplink/arrival.h"

/* Fills what a frontend is known by. 0: most packets are to none, nothing else is asked of them. */
static __always_inline __u32 frontend_of(struct packet *p, const struct tuple *t,
					 enum family family)
{
	struct request *r = &p->request;

	__builtin_memset(r, 0, sizeof(*r));
	r->address = t->destination;
	r->port = t->destination_port;
	r->protocol = t->protocol;
	p->frontend_id = find_frontend(r, family);
	return p->frontend_id;
}

static __always_inline __u32 frontend_of_destination(struct packet *p, enum family family)
{
	return frontend_of(p, &p->wire, family);
}

/* Of the backend of p->conn. */
static __always_inline __u32 service_of_kept(const struct packet *p, enum family family)
{
	struct backend b;

	return read_backend(p->conn.conn.backend_id, family, &b) ? b.service_id : 0;
}

/* Fills the rest: where the packet comes from. */
static __always_inline void set_client(hook_context *ctx, struct packet *p, enum family family)
{
	__u32 ifindex = device_of(ctx, p);
	struct device *device = bpf_map_lookup_elem(&fl_device, &ifindex);
	struct request *r = &p->request;

	r->source = p->wire.source;
	r->source_port = p->wire.source_port;
	r->position = position_of_source(&p->wire.source);
	if (device && device->ifindex == ifindex && device->flags.is_pod)
		r->position = POSITION_POD;
	p->answers_by = answers_by(ctx, p, device);
	r->source_is_address = true;
	r->may_choose_anew = is_first(p);
	if (unlikely(p->keeps_backend)) {
		r->flow.backend_id = p->conn.conn.backend_id;
		r->flow.generation = p->conn.conn.life.generation;
		r->flow.service_id = service_of_kept(p, family);
	}
}

/*
 * A packet that XDP leaves gets the same backend again at tc. Else a backend whose packets are left
 * would have to be chosen twice, and get fewer.
 */
static __always_inline bool select_for(struct packet *p, bool is_first, enum family family)
{
	set_now(p);
	p->request.number = mix(hash_of_now(p, family), p->syn) >> 32;
	__builtin_memset(&p->choice, 0, sizeof(p->choice));
	return try_select(&p->request, is_first, family, &p->choice);
}

/* True: p->choice is made. */
__noinline int fl_select4(bool is_first)
{
	struct packet *p = this_packet();

	return p && select_for(p, is_first, FAMILY_IPV4);
}

__noinline int fl_select6(bool is_first)
{
	struct packet *p = this_packet();

	return p && select_for(p, is_first, FAMILY_IPV6);
}

/* As select_backend(), by one function: the verifier goes through it once. */
static __always_inline enum verdict select(struct packet *p, enum family family)
{
	if (family == FAMILY_IPV4 ? !fl_select4(true) && !fl_select4(false)
				  : !fl_select6(true) && !fl_select6(false))
		refuse_stale_backend(&p->choice);
	return p->choice.verdict;
}

/* After VERDICT_TRANSLATE; at XDP, not before it is decided that the packet is not left. */
__noinline int fl_note_choice4(void)
{
	struct packet *p = this_packet();

	if (p)
		note_choice(&p->request, FAMILY_IPV4, &p->choice);
	return 0;
}

__noinline int fl_note_choice6(void)
{
	struct packet *p = this_packet();

	if (p)
		note_choice(&p->request, FAMILY_IPV6, &p->choice);
	return 0;
}

#endif
