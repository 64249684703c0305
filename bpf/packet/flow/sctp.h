/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Associations of SCTP, by the first chunk of each packet, as nf_conntrack_proto_sctp follows them.
 * Only a backend's COOKIE-ACK establishes one, since the client has then sent its cookie back,
 * which nobody can guess: see begin_anew(). The end is believed of a packet with a verification tag
 * of the association. The flags of FIN and RST in the legs stand for it.
 */
#ifndef FAIRLEAD_SCTP_H
#define FAIRLEAD_SCTP_H

#include "packet/flow/tables.h"

#define FLOW_STATES 4
#define NEW	    FLOW_NEW
#define ESTABLISHED FLOW_ESTABLISHED
#define HALF_CLOSED FLOW_HALF_CLOSED
#define CLOSED	    FLOW_CLOSED

/* What each chunk, of either side, makes of each state. The one before may be behind another chunk.
 */
static const enum flow_state sctp_states[SCTP_CHUNKS][FLOW_STATES] = {
	[SCTP_INIT] = {NEW, ESTABLISHED, HALF_CLOSED, CLOSED},
	[SCTP_INIT_ACK] = {NEW, ESTABLISHED, HALF_CLOSED, CLOSED},
	[SCTP_ABORT] = {CLOSED, CLOSED, CLOSED, CLOSED},
	[SCTP_SHUTDOWN] = {NEW, HALF_CLOSED, HALF_CLOSED, CLOSED},
	[SCTP_SHUTDOWN_ACK] = {NEW, HALF_CLOSED, HALF_CLOSED, CLOSED},
	[SCTP_COOKIE_ECHO] = {NEW, ESTABLISHED, HALF_CLOSED, CLOSED},
	[SCTP_COOKIE_ACK] = {NEW, ESTABLISHED, HALF_CLOSED, CLOSED},
	[SCTP_SHUTDOWN_COMPLETE] = {NEW, CLOSED, CLOSED, CLOSED},
};

#undef NEW
#undef ESTABLISHED
#undef HALF_CLOSED
#undef CLOSED

/*
 * In the place of TCP's: the legs are looked at for a packet with a SYN, and one with SYN and ACK
 * of a backend begins a connection.
 */
static __always_inline __u8 flags_of_chunk(enum sctp_chunk chunk)
{
	if (chunk == SCTP_DATA)
		return 0;
	return chunk == SCTP_COOKIE_ACK ? TCP_SYN | TCP_ACK : TCP_SYN;
}

/*
 * Each side sends the tag that the other one has chosen: what the client sends is in the flow leg,
 * what the backend sends in the nat leg. Who has forgotten the association sends what it was sent.
 * 0: not known, as of an association that is older than this rule.
 */
static __always_inline bool has_tag(const struct packet *p, __u32 own, __u32 other)
{
	return !own || p->progress == own || p->progress == other;
}

static __always_inline enum flow_state state_after(const struct packet *p, enum flow_state state)
{
	return sctp_states[p->chunk % SCTP_CHUNKS][state % FLOW_STATES];
}

/* A packet of the client. The first one of an association that is no chunk above has its tag. */
static __always_inline void follow_client(const struct packet *p, struct flow *flow,
					  const struct nat *nat, enum flow_state state,
					  enum family family)
{
	__u32 *tag = progress_of(flow, family);
	enum flow_state next;

	if (p->chunk == SCTP_DATA) {
		if (nat->flags.replied && !*tag)
			*tag = p->progress;
		return;
	}
	next = state_after(p, state);
	if (next == state || !has_tag(p, *tag, nat->progress))
		return;
	if (next == FLOW_CLOSED)
		flow->flags.reset = 1;
	else
		flow->flags.client_fin = 1;
}

/* A packet of the backend with one of the chunks above. */
static __always_inline void follow_backend(const struct packet *p, struct nat *nat, __u32 tag,
					   enum flow_state state)
{
	enum flow_state next = state_after(p, state);

	if (next == state || !has_tag(p, nat->progress, tag))
		return;
	if (next == FLOW_CLOSED)
		nat->flags.reset = 1;
	else
		nat->flags.backend_fin = 1;
}

#endif
