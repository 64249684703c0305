/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which event of states.h a packet is for a connection. */
#ifndef FAIRLEAD_CONN_EVENTS_H
#define FAIRLEAD_CONN_EVENTS_H

#include "packet/conn/life/believe.h"
#include "packet/conn/life/liveness.h"

/* What an event depends on besides the record and the headers. */
struct conn_view {
	const struct flow_timeouts *timeouts; /* seconds */
	__u32 now;			      /* tick */
	__u8 backend;			      /* enum backend_state; FREE: its id is another's */
};

/* What follows from that. */
enum conn_facts {
	IS_LATE = 1,	/* a first packet does not go on with this connection */
	IS_EXPIRED = 2, /* as CONN_EXPIRED */
	IS_AGAIN = 4,	/* it is sent later than in the first second */
};

/*
 * A backend that takes no new connections keeps those that it has. It does not get what may be a
 * new one, as ROW_LATE knows it.
 */
static __always_inline bool is_late(__u32 backend, __u32 silent_ticks, __u32 timeout,
				    const struct flow_timeouts *t)
{
	if (backend != BACKEND_ACTIVE &&
	    (backend != BACKEND_TERMINATING || timeout == TIMEOUT_RESERVED))
		return true;
	return silent_ticks > ticks_of(t, timeout);
}

/* Global, see fl_conn_event(). `backend`: enum backend_state. */
__noinline __u32 fl_conn_facts(__u64 life_word, __u32 silent_ticks, __u32 age_ticks, __u32 backend,
			       const struct flow_timeouts *t)
{
	union conn_word word = {.word = life_word};
	struct conn_life life = word.life;
	__u32 facts = 0;

	if (!t)
		return 0;
	if (is_late(backend, silent_ticks, cell_at(life, ROW_LATE, life.state), t))
		facts |= IS_LATE;
	if (silent_ticks > ticks_of(t, timeout_kept(life)))
		facts |= IS_EXPIRED;
	if (age_ticks >= TICKS_PER_SECOND)
		facts |= IS_AGAIN;
	return facts;
}

static __always_inline __u32 facts_of(const struct conn *c, __u64 life_word,
				      const struct conn_view *v)
{
	return fl_conn_facts(life_word, ticks_passed(c->seen, v->now),
			     ticks_passed(c->born, v->now), v->backend, v->timeouts);
}

/* What no stack takes, as a SYN with a FIN, or a FIN without an ACK, is no event. */
static __always_inline enum conn_event event_of_tcp(const struct conn_packet *p)
{
	__u8 flags = p->tcp_flags;

	if (flags & TCP_SYN && flags & (TCP_FIN | TCP_RST))
		return CONN_NO_EVENT;
	if (flags & TCP_SYN && !p->from_backend)
		return flags & TCP_ACK ? CONN_NO_EVENT : CLIENT_SYN;
	if (flags & TCP_SYN)
		return flags & TCP_ACK ? BACKEND_SYN_ACK : CONN_NO_EVENT;
	if (flags & TCP_RST)
		return p->from_backend ? BACKEND_RST : CLIENT_RST;
	if (!(flags & TCP_ACK))
		return CONN_NO_EVENT;
	if (flags & TCP_FIN)
		return p->from_backend ? BACKEND_FIN : CLIENT_FIN;
	return p->from_backend ? BACKEND_DATA : CLIENT_DATA;
}

static __always_inline enum conn_event event_of_sctp(const struct conn_packet *p)
{
	switch (p->chunk) {
	case SCTP_DATA:
		return p->from_backend ? BACKEND_DATA : CLIENT_DATA;
	case SCTP_INIT:
		return p->from_backend ? CONN_NO_EVENT : CLIENT_SYN;
	case SCTP_COOKIE_ACK:
		return p->from_backend ? BACKEND_SYN_ACK : CONN_NO_EVENT;
	case SCTP_SHUTDOWN:
	case SCTP_SHUTDOWN_ACK:
		return p->from_backend ? BACKEND_FIN : CLIENT_FIN;
	case SCTP_ABORT:
		return p->from_backend ? BACKEND_RST : CLIENT_RST;
	case SCTP_SHUTDOWN_COMPLETE:
		return p->from_backend ? BACKEND_DONE : CLIENT_DONE;
	default:
		return CONN_NO_EVENT;
	}
}

static __always_inline enum conn_event event_of_udp(const struct conn_packet *p,
						    struct conn_life life, __u32 facts)
{
	if (p->from_backend)
		return BACKEND_DATA;
	return is_one_sided(life) && facts & IS_AGAIN ? CLIENT_AGAIN : CLIENT_DATA;
}

/* A connection begins, or, except of TCP, may begin. */
static __always_inline bool may_begin(struct conn_life life, enum conn_event event)
{
	return event == CLIENT_SYN || life.protocol != PROTOCOL_TCP;
}

/*
 * To the SNAT port of a connection that is over. A datagram: no socket of the node has the port,
 * but netfilter may have given it to a connection that it masquerades. A SYN-ACK: the node's own.
 */
static __always_inline bool is_of_node(struct conn_life life, enum conn_event event, __u32 facts)
{
	if (!life.flags.masquerade)
		return false;
	if (life.protocol == PROTOCOL_UDP)
		return facts & IS_EXPIRED;
	return event == BACKEND_SYN_ACK && life.protocol == PROTOCOL_TCP &&
	       cell_at(life, ROW_LIVENESS, life.state) == CONN_ENDED;
}

/* INIT and COOKIE-ACK begin an association, whose tags are not known yet. */
static __always_inline bool needs_no_tag(struct conn_life life, enum conn_event event)
{
	return life.protocol == PROTOCOL_SCTP &&
	       (event == CLIENT_SYN || event == BACKEND_SYN_ACK || event == CLIENT_DATA);
}

/* What the packet says, as fl_conn_event. Global: what follows is the same for every event. */
__noinline __u32 fl_packet_event(__u64 life_word, __u64 headers, __u32 facts)
{
	union conn_word word = {.word = life_word};
	union conn_headers packet = {.word = headers};

	if (word.life.protocol == PROTOCOL_TCP)
		return event_of_tcp(&packet.packet);
	if (word.life.protocol == PROTOCOL_SCTP)
		return event_of_sctp(&packet.packet);
	return event_of_udp(&packet.packet, word.life, facts);
}

/*
 * An enum conn_event. Global, see backend.h: the verifier goes through it once. So its arguments
 * are numbers: a union conn_word, both kinds of progress, a struct conn_packet, enum conn_facts.
 */
__noinline __u32 fl_conn_event(__u64 life_word, __u64 progress, __u64 headers, __u32 facts)
{
	union conn_word word = {.word = life_word};
	union conn_headers packet = {.word = headers};
	const struct conn_packet *p = &packet.packet;
	struct conn_life life = word.life;
	enum conn_event event = fl_packet_event(life_word, headers, facts);

	if (!p->from_backend && facts & IS_LATE && may_begin(life, event))
		return CLIENT_LATE;
	if (p->from_backend && is_of_node(life, event, facts))
		return BACKEND_LATE;
	if (needs_no_tag(life, event) || is_believed(life, p, progress >> 32, progress))
		return event;
	return CONN_NO_EVENT;
}

static __always_inline enum conn_event event_of(const struct conn *c, struct conn_life life,
						const struct conn_packet *p,
						const struct conn_view *v)
{
	union conn_word word = {.life = life};
	union conn_headers headers = {.packet = *p};
	__u64 progress = (__u64)c->progress_client << 32 | c->progress_backend;

	return fl_conn_event(word.word, progress, headers.word, facts_of(c, word.word, v));
}

#endif
