/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests that another node sends in Geneve, at the node of the backend: then they are those of a
 * connection as any, whose backend is the one that was named. They never leave in Geneve again,
 * whatever this node would choose: so no packet goes round between nodes that disagree.
 */
#ifndef FAIRLEAD_GENEVE_RECEIVE_H
#define FAIRLEAD_GENEVE_RECEIVE_H

#include "packet/flow/begin.h"
#include "packet/flow/select.h"
#include "packet/flow/fragment.h"
#include "packet/geneve/back.h"

/* --- the backend -------------------------------------------------------------------------------
 */

/* Of the request. A NodePort is one of the node that sent it: no address of this one. */
static __always_inline __u32 frontend_of_request(struct packet *p, enum family family)
{
	struct request *r = &p->request;
	__u32 id = frontend_of_destination(p, family);

	if (!id) {
		__builtin_memset(r, 0, sizeof(*r));
		r->port = p->wire.destination_port;
		r->protocol = p->wire.protocol;
		if (has_node_ports() && may_be_node_port(r->port))
			id = frontend_at(r, MATCH_ANY_NODE_ADDRESS, family);
	}
	return id;
}

/* Completes p->choice, which has the address and the port. */
static __always_inline bool find_local_backend(struct packet *p, enum family family)
{
	struct choice *c = &p->choice;
	struct local_backend_key key = {.service_id = c->service_id, .port = c->port};
	struct local_backend *found;
	struct backend b;

	__builtin_memcpy(key.address, &c->address, sizeof(key.address));
	found = bpf_map_lookup_elem(&fl_local_be, &key);
	if (!found)
		return false;
	c->backend_id = found->backend_id;
	if (!read_backend(c->backend_id, family, &b))
		return false;
	c->generation = b.generation;
	return b.is_local && b.service_id == c->service_id && b.port == c->port &&
	       is_same_address(&b.address, &c->address) &&
	       (b.state == BACKEND_ACTIVE || b.state == BACKEND_TERMINATING);
}

static __always_inline enum reason choose_named(struct packet *p, enum family family)
{
	const struct frontend *fe;

	p->choice.frontend_id = frontend_of_request(p, family);
	fe = p->choice.frontend_id ? frontend_with(p->choice.frontend_id) : NULL;
	if (!fe)
		return REASON_GENEVE_NOT_A_FRONTEND;
	p->choice.service_id = fe->service_id;
	p->choice.verdict = VERDICT_LEAVE;
	return find_local_backend(p, family) ? REASON_TRANSLATED : REASON_GENEVE_NO_BACKEND;
}

/*
 * Whether a connection may begin: nodes send in Geneve only what their rules for clients outside
 * say, and those are the same here. A source that is forged gets no further than in a packet of its
 * own. Global, because a connection that is known may end, too.
 */
__noinline int fl_may_begin(void)
{
	struct packet *p = this_packet();
	const struct frontend *fe = p ? frontend_with(p->choice.frontend_id) : NULL;
	struct traffic_rule rule;

	if (!fe)
		return false;
	rule = read_rule(&fe->rule[POSITION_OUTSIDE]);
	return rule.flags.direct_return && !rule.flags.ipip &&
	       (!rule.flags.source_ranges ||
		source_is_allowed(p->choice.service_id, &p->wire.source));
}

/* --- the connection ----------------------------------------------------------------------------
 */

/*
 * A connection that is known, p->conn: of the backend that was named, or of another one here, which
 * has it: then this node knows better than one that has just adopted it.
 */
static __always_inline bool may_go_on(const struct packet *p)
{
	const struct conn *c = &p->conn.conn;

	if (c->life.flags.direct_return)
		return false;
	if (c->backend_id == p->choice.backend_id && c->life.generation == p->choice.generation)
		return true;
	return !is_first(p) && !c->life.flags.masquerade;
}

/* A connection whose backend is no longer one of a Service goes on; no new one gets it. */
static __always_inline bool may_go_on_without(const struct packet *p)
{
	return !p->conn.conn.life.flags.direct_return && !is_first(p) && is_of_named(p);
}

/* NOT_HERE, BEGINS_HERE, GOES_ON */
static __always_inline int decide_here(struct packet *p, enum family family)
{
	enum reason reason = choose_named(p, family);
	bool is_known;

	set_now(p);
	is_known = find_request(p, family);
	if (reason != REASON_TRANSLATED)
		p->choice.backend_id = 0;
	if (is_known && (reason == REASON_TRANSLATED ? may_go_on(p) : may_go_on_without(p)))
		return GOES_ON;
	if (reason == REASON_TRANSLATED && !fl_may_begin())
		reason = REASON_GENEVE_NOT_A_FRONTEND;
	if (reason != REASON_TRANSLATED) {
		count_reason(reason);
		return NOT_HERE;
	}
	if (is_known)
		end_conn(family);
	return BEGINS_HERE;
}

__noinline int fl_decide_here4(void)
{
	struct packet *p = this_packet();

	return p ? decide_here(p, FAMILY_IPV4) : TC_ACT_SHOT;
}

__noinline int fl_decide_here6(void)
{
	struct packet *p = this_packet();

	return p ? decide_here(p, FAMILY_IPV6) : TC_ACT_SHOT;
}

static __always_inline int deliver(struct __sk_buff *skb, int decision, enum family family)
{
	struct packet *p = this_packet();
	int action;

	if (!p)
		return TC_ACT_SHOT;
	p->in_geneve = true;
	if (decision == GOES_ON) {
		action = request(skb, family);
		if (action != UNDECIDED)
			return action;
		if (!p->choice.backend_id || !fl_may_begin())
			return unanswered(REASON_GENEVE_NO_BACKEND);
	}
	/* A connection that this node has lost: its backend has answered it before. */
	if (!is_first(p)) {
		p->former_backend = p->choice.backend_id;
		p->former_port = 0;
	}
	return family == FAMILY_IPV4 ? fl_begin4(skb) : fl_begin6(skb);
}

__noinline int fl_deliver4(struct __sk_buff *skb, int decision)
{
	return deliver(skb, decision, FAMILY_IPV4);
}

__noinline int fl_deliver6(struct __sk_buff *skb, int decision)
{
	return deliver(skb, decision, FAMILY_IPV6);
}

/* --- the packet --------------------------------------------------------------------------------
 */

static __always_inline bool takes_geneve(void)
{
	struct runtime_flags *flags = runtime_flags();

	return flags && flags->direct_port;
}

/* To the port where this node takes it, or others do. */
static __always_inline bool may_be_geneve(const struct packet *p)
{
	struct runtime_flags *flags = runtime_flags();
	__u16 port = flags && flags->direct_port ? flags->direct_port : GENEVE_PORT;

	return p->wire.destination_port == port;
}

/*
 * Of pods, what they send to any node; of others, what they send to this one. A node that takes
 * none does not know the other ones: there it is what pods send to anybody.
 */
static __always_inline bool concerns_nodes(const struct packet *p, bool is_pod)
{
	if (!takes_geneve())
		return is_pod;
	return is_to_node(p) || (is_pod && peer_at(&p->wire.destination));
}

/* Of a datagram to the port. IN_GENEVE: fl_read_inner() goes on. */
__noinline int fl_receive(struct __sk_buff *skb)
{
	struct packet *p = this_packet();
	struct geneve_head head = {};
	enum wrapped wrapped;
	bool is_pod;

	if (!p)
		return LEAVE;
	is_pod = fl_is_from_pod(skb);
	if (!concerns_nodes(p, is_pod))
		return LEAVE;
	wrapped = read_geneve(skb, p, &head);
	if (wrapped == WRAPPED_FOREIGN)
		return LEAVE;
	if (wrapped == WRAPPED_CUT && !is_pod)
		return LEAVE;
	if (is_pod || !peer_at(&p->wire.source))
		return unanswered(REASON_GENEVE_STRANGER);
	if (wrapped == WRAPPED_MALFORMED)
		return unanswered(REASON_GENEVE_MALFORMED);
	note_wrapped(p, &head);
	return can_be_unwrapped(p) ? IN_GENEVE : unanswered(REASON_GENEVE_NOT_UNWRAPPED);
}

/* Of the packet inside: what is to become of it. */
static __always_inline int decide_parsed(struct packet *p, int parsed)
{
	bool is_ipv4 = p->way.inner == FAMILY_IPV4;

	if (parsed != PARSED_FLOW || p->wire.protocol == PROTOCOL_SCTP)
		return unanswered(REASON_GENEVE_NOT_A_FRONTEND);
	if (is_ipv4 ? is_loopback(&p->wire.destination, FAMILY_IPV4)
		    : is_loopback(&p->wire.destination, FAMILY_IPV6))
		return unanswered(REASON_DROPPED_MARTIAN);
	if (p->is_fragment && !fl_know_ports())
		return unanswered(REASON_DROPPED_FRAGMENT);
	if (!is_of_cluster(p))
		return unanswered(REASON_GENEVE_NO_COOKIE);
	if (p->way.option_flags & GENEVE_GIVEN_BACK)
		return COMES_BACK;
	return is_ipv4 ? fl_decide_here4() : fl_decide_here6();
}

/* It is unwrapped when it is sure that it stays here. */
__noinline int fl_read_inner(struct __sk_buff *skb)
{
	struct packet *p = this_packet();
	__u32 at;
	int decision;

	if (!p)
		return TC_ACT_SHOT;
	at = p->network + overhead_by(&p->way, p->way.inner);
	p->is_plain = false;
	decision = decide_parsed(p, p->way.inner == FAMILY_IPV4 ? fl_parse4(skb, at)
								: fl_parse6(skb, at));
	if (decision == NOT_HERE)
		return fl_give_back(skb);
	if (decision != TC_ACT_SHOT && !unwrap(skb, p))
		return unanswered(REASON_GENEVE_NOT_UNWRAPPED);
	return decision;
}

/* Side by side: what they call takes the stack and the eight frames that there are. */
static __always_inline int on_geneve(struct __sk_buff *skb)
{
	bool is_ipv4;
	int next = fl_receive(skb);

	if (next != IN_GENEVE)
		return next;
	if (!with_direct_return)
		return unanswered(REASON_GENEVE_NOT_UNWRAPPED);
	next = fl_read_inner(skb);
	is_ipv4 = skb->protocol == bpf_htons(ETH_P_IP);
	if (next == COMES_BACK)
		return is_ipv4 ? fl_take_back4(skb) : fl_take_back6(skb);
	if (next == BEGINS_HERE || next == GOES_ON)
		return is_ipv4 ? fl_deliver4(skb, next) : fl_deliver6(skb, next);
	return next;
}

#endif
