/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connections without a record. Where a table of Maglev chooses and answers do not come by, the
 * table names the backend of every packet as it named that of the SYN.
 *
 * It does so until the table changes. Then the set keeps the former table, its base, and only flows
 * whose entries differ need a record: those that begin, with the backend of the new table, and
 * those without a record, with the backend of the base.
 * docs/adr/0048-direct-return-without-state.md has the reasons.
 */
#ifndef FAIRLEAD_STATELESS_H
#define FAIRLEAD_STATELESS_H

#include "packet/flow/select.h"

/*
 * To an address of the node a packet may be of a connection of the node's own, or of one that
 * netfilter masquerades, which has the number of a NodePort: there the kernel knows, and sends the
 * RST. As long as it may be of a former proxy's it is left, too, unless its connection has just
 * ended here.
 */
static __always_inline bool is_of_kernel(const struct packet *p, enum family family)
{
	const struct packet_settings *s = packet_settings();

	return !s || (p->now < s->reset_unknown_from && !p->former_backend) ||
	       answers_node_ports(&p->request, family);
}

/* --- tables ------------------------------------------------------------------------------------
 */

/* src/engines/bpf/layout/layout.ts has the same. */
static __always_inline bool has_table(enum set_kind kind)
{
	return kind != SET_RANDOM && kind != SET_ROUND_ROBIN && kind != SET_LEAST_CONNECTIONS;
}

/* The run of the base, of a rule that has one. */
static __always_inline __u32 base_block(const struct traffic_rule *rule)
{
	__u32 run = table_block(rule->block, rule->members);

	return has_table(rule->kind) ? table_block(run, fl_slot_of_run(run, 0)) : run;
}

static __always_inline __u32 entry_of(__u32 run, __u32 hash)
{
	return fl_slot_of_run(run, slot_by(hash, fl_slot_of_run(run, 0)));
}

/* As the table of Maglev is asked by select.h. */
static __always_inline __u32 hash_of_request(const struct request *r)
{
	const struct route route = {.rule.kind = SET_MAGLEV};
	__u64 from_high, from_low, to_high, to_low;

	__builtin_memcpy(&from_high, &r->source.byte[0], sizeof(from_high));
	__builtin_memcpy(&from_low, &r->source.byte[8], sizeof(from_low));
	__builtin_memcpy(&to_high, &r->address.byte[0], sizeof(to_high));
	__builtin_memcpy(&to_low, &r->address.byte[8], sizeof(to_low));
	return fl_hash(from_high, from_low, to_high, to_low, hash_rest(r, &route));
}

/* The id in the base, if it differs from that in the table; else 0. */
static __always_inline __u32 differing(const struct request *r, const struct traffic_rule *rule)
{
	__u32 hash = hash_of_request(r), base = entry_of(base_block(rule), hash);

	if (rule->kind != SET_MAGLEV)
		return base;
	return base != entry_of(table_block(rule->block, rule->members), hash) ? base : 0;
}

/* --- packets without a record ------------------------------------------------------------------
 */

/*
 * The flow keeps the backend, if that is still there. Of UDP nobody can tell a first datagram: as
 * long as there is a base, which is two minutes, a flow that begins goes where the others go.
 */
static __always_inline enum known_by keep_base(struct packet *p, __u32 id, enum family family)
{
	struct flow_record *flow = &p->request.flow;
	struct backend b;

	if (!read_backend(id, family, &b))
		return KNOWN_BY_RECORD;
	flow->backend_id = id;
	flow->service_id = b.service_id;
	flow->generation = b.generation;
	return KNOWN_BY_BASE;
}

/*
 * Whether connections of the rule are sent on as they are, so that their answers do not come by.
 * isUnanswered() in src/engines/bpf/rows/service-port/base.ts is the same: bases are kept of
 * those.
 */
static __always_inline bool is_unanswered(const struct traffic_rule *rule)
{
	return rule->flags.direct_return & rule->flags.masquerade;
}

static __always_inline enum known_by known_by(struct packet *p, enum family family)
{
	struct request *r = &p->request;
	const struct frontend *fe = p->frontend_id ? frontend_with(p->frontend_id) : NULL;
	struct traffic_rule rule;
	__u32 base = 0;

	/* A SYN with ACK is no client's. */
	if (!fe || p->keeps_backend || (!p->syn && p->tcp_flags & TCP_SYN))
		return KNOWN_BY_RECORD;
	rule = read_rule(&fe->rule[r->position % POSITIONS]);
	if (!is_unanswered(&rule) || !rule.members || is_of_kernel(p, family) ||
	    (p->former_backend && !is_first(p)))
		return KNOWN_BY_RECORD;
	if (rule.flags.has_base)
		base = differing(r, &rule);
	if (base)
		return p->syn ? KNOWN_BY_RECORD : keep_base(p, base, family);
	/* Later fragments have no ports: only a record leads them to the backend of the first one.
	 */
	return rule.kind == SET_MAGLEV && !fe->affinity_seconds && !p->is_fragment
		       ? KNOWN_BY_TABLE
		       : KNOWN_BY_RECORD;
}

/* Sets p->known_by, of p->request. */
static __always_inline int set_known_by(struct packet *p, enum family family)
{
	set_now(p);
	p->known_by = known_by(p, family);
	if (p->known_by == KNOWN_BY_TABLE)
		p->request.may_choose_anew = true;
	return 0;
}

/* Global, see backend.h. */
__noinline int fl_known_by4(void)
{
	struct packet *p = this_packet();

	return p ? set_known_by(p, FAMILY_IPV4) : 0;
}

__noinline int fl_known_by6(void)
{
	struct packet *p = this_packet();

	return p ? set_known_by(p, FAMILY_IPV6) : 0;
}

/* --- ICMP errors -------------------------------------------------------------------------------
 */

/* p->back, which an ICMP error is about, may be a request of a connection without a record. */
static __always_inline bool is_stateless(struct packet *p, enum family family)
{
	struct request *r = &p->request;

	if (!frontend_of(p, &p->back, family))
		return false;
	r->source = p->back.source;
	r->source_port = p->back.source_port;
	r->position = position_of_source(&p->back.source);
	r->source_is_address = true;
	p->syn = 0;
	p->tcp_flags = 0;
	set_known_by(p, family);
	return p->known_by != KNOWN_BY_RECORD;
}

__noinline int fl_is_stateless4(void)
{
	struct packet *p = this_packet();

	return p ? is_stateless(p, FAMILY_IPV4) : false;
}

__noinline int fl_is_stateless6(void)
{
	struct packet *p = this_packet();

	return p ? is_stateless(p, FAMILY_IPV6) : false;
}

/* Its connection becomes p->conn, as far as an error is to be translated. */
static __always_inline bool find_stateless(struct packet *p, enum family family)
{
	if (!(family == FAMILY_IPV4 ? fl_is_stateless4() : fl_is_stateless6()) ||
	    select(p, family) != VERDICT_TRANSLATE || !p->choice.masquerade)
		return false;
	p->backend = p->choice.address;
	p->conn.conn.backend_port = p->choice.port;
	p->conn.conn.middle_port = p->back.source_port;
	return true;
}

__noinline int fl_find_stateless4(void)
{
	struct packet *p = this_packet();

	return p ? find_stateless(p, FAMILY_IPV4) : false;
}

__noinline int fl_find_stateless6(void)
{
	struct packet *p = this_packet();

	return p ? find_stateless(p, FAMILY_IPV6) : false;
}

#endif
