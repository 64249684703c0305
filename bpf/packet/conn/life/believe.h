/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a packet can be of the connection whose addresses and ports it has: anybody may have sent
 * it, but only the two sides know its sequence numbers, or its verification tags. A packet that is
 * not believed is translated as any other, and changes nothing.
 */
#ifndef FAIRLEAD_CONN_BELIEVE_H
#define FAIRLEAD_CONN_BELIEVE_H

#include <stdbool.h>

#include "packet/conn/types.h"
#include "packet/conn/life/wire.h"

/* What the headers of a packet say, as far as connections follow it. */
struct conn_packet {
	conn_progress progress;
	__u8 from_backend;
	__u8 tcp_flags; /* enum tcp_flags */
	__u8 syn;   /* of a SYN: its own, as in struct conn_life; of an answer: that of the SYN */
	__u8 chunk; /* enum sctp_chunk, of the first one */
};

/* As an argument of a global function. */
union conn_headers {
	struct conn_packet packet;
	__u64 word;
};

/* Tells a SYN from one of another connection, by its sequence number. */
static __always_inline __u8 syn_at(__u32 sequence)
{
	__u8 hash = sequence * 0x9e3779b1u >> 24;

	return hash ? hash : 1;
}

/*
 * Sequence numbers of one connection that are seen one after the other differ by no more than its
 * window, so that one that is farther away is forged. In units of 64 KiB: 32 MiB, the most that
 * Linux gives a connection's buffer unless it is told otherwise (tcp_rmem).
 */
#define NEAR_SEQUENCES 512

static __always_inline bool is_near(__u16 a, __u16 b)
{
	return (__u16)(a - b + NEAR_SEQUENCES) <= 2 * NEAR_SEQUENCES;
}

/* Of a connection that a RST has ended the state before that, which what goes on is a packet of. */
static __always_inline enum conn_state state_behind(struct conn_life life)
{
	return life.state < CONN_CLOSED_BY_CLIENT ? life.state : life.flags.before;
}

/*
 * It goes on from what the client has sent, and answers the SYN-ACK if it is the first to do so. Or
 * it catches up, since packets between have taken another way: the backend acknowledges its place,
 * and it acknowledges that of the backend.
 */
static __always_inline bool is_of_client(const struct conn_packet *p, conn_progress own,
					 conn_progress backend, struct conn_life life)
{
	bool is_ack = p->tcp_flags & TCP_ACK;

	if (!own)
		return true;
	if (is_near(p->progress >> 16, own >> 16))
		return state_behind(life) != CONN_ANSWERED || !is_ack || is_near(p->progress, own);
	return is_ack && backend && is_near(p->progress >> 16, backend) &&
	       is_near(p->progress, backend >> 16);
}

/*
 * It goes on from what the client acknowledges, or answers the client's SYN: a backend that has
 * sent a SYN-ACK may refuse the SYN when it comes again.
 */
static __always_inline bool is_of_backend(const struct conn_packet *p, conn_progress client,
					  struct conn_life life)
{
	bool answers_syn = p->syn && p->syn == life.syn;

	if (p->tcp_flags & TCP_SYN)
		return life.state == CONN_NEW || !life.syn || answers_syn;
	if (life.state == CONN_NEW && !(__u16)client)
		return !life.syn || answers_syn;
	if (!client && !life.syn)
		return true;
	return is_near(p->progress >> 16, client) || (life.state == CONN_ANSWERED && answers_syn);
}

/* A side that has forgotten an association sends the tag that it was sent. 0: not known. */
static __always_inline bool has_tag(const struct conn_packet *p, conn_progress own,
				    conn_progress other)
{
	return !own || p->progress == own || p->progress == other;
}

/* A SYN of the client cannot be told from a forged one. A datagram says nothing. */
static __always_inline bool is_believed(struct conn_life life, const struct conn_packet *p,
					conn_progress client, conn_progress backend)
{
	if (life.protocol == PROTOCOL_UDP)
		return true;
	if (life.protocol == PROTOCOL_SCTP)
		return p->from_backend ? has_tag(p, backend, client) : has_tag(p, client, backend);
	if (p->from_backend)
		return is_of_backend(p, client, life);
	return p->tcp_flags & TCP_SYN || is_of_client(p, client, backend, life);
}

#endif
