/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of connections, as the agent sees it in mapped memory: one record for each connection,
 * and the two indexes that lead to it. README.md has the life of a record. The rules for addresses
 * and ports are those of common/types.h. Also compiles as user space C.
 */
#ifndef FAIRLEAD_CONN_TYPES_H
#define FAIRLEAD_CONN_TYPES_H

#include "common/types.h"

/*
 * Times are in ticks of CLOCK_MONOTONIC: its nanoseconds, shifted by this. A tick is 17 ms, short
 * enough to say which of two half-open connections is older, and the clock wraps after 834 days.
 */
#define TICK_SHIFT	  24
#define TICKS_PER_SECOND  60 /* rounded up */
#define TICKS_OF(seconds) ((seconds) * TICKS_PER_SECOND)

/* --- the record ------------------------------------------------------------------------------- */

/* Of all protocols; life/states.h says what leads from one to the next. */
enum conn_state {
	CONN_NEW = 0,		 /* the backend has not answered; TCP: SYN_SENT */
	CONN_ANSWERED = 1,	 /* it has, and the client has not confirmed it; TCP: SYN_RECV */
	CONN_ESTABLISHED = 2,	 /* both sides have confirmed it */
	CONN_FIN_CLIENT = 3,	 /* the client has sent a FIN */
	CONN_FIN_BACKEND = 4,	 /* the backend has */
	CONN_TIME_WAIT = 5,	 /* both have */
	CONN_REOPENED = 6,	 /* one-sided: a SYN after the client's FIN */
	CONN_SHUTDOWN = 7,	 /* SCTP: one side has sent a SHUTDOWN */
	CONN_ANSWERED_TWICE = 8, /* UDP: one more datagram of the client confirms it */
	/* The client, the backend, or both have sent a RST; of SCTP: the association is over. */
	CONN_CLOSED_BY_CLIENT = 9,
	CONN_CLOSED_BY_BACKEND = 10,
	CONN_CLOSED = 11,
	CONN_STATES,
} PACKED_ENUM;

struct conn_flags {
	__u8 masquerade : 1;	/* the reply's destination is a SNAT address */
	__u8 direct_return : 1; /* requests leave in Geneve, to the backend's node */
	__u8 ipip : 1;		/* the same in IPIP, to a real server */
	__u8 in_geneve : 1;	/* requests come in Geneve, from another node */
	__u8 of_stale : 1;	/* of one socket alone, see answer/stale.h */
	__u8 before : 3; /* the state before a RST, which is believed until its sender goes on */
};

struct conn_marks {
	__u8 own : 1;	/* a connection of the node itself, see snat/own.h: no request comes in */
	__u8 fresh : 1; /* no connection of this client to this backend was known before */
};

/*
 * Changed as one word, by compare-and-swap. `proof` is in it, so a late packet cannot change the
 * record of the next connection.
 */
struct conn_life {
	enum conn_state state;
	struct conn_flags flags;
	__u16 generation; /* of the backend */
	__u8 syn;	  /* of the latest SYN that was translated */
	enum l4_protocol protocol;
	__u16 proof; /* keyed hash of what is written while BUSY: a copy that it does not fit is
			torn */
} __attribute__((aligned(8)));

/*
 * By the packets of one side: the upper halves of TCP's sequence number, and of the one that it
 * acknowledges. Of SCTP the verification tag. 0: not known.
 */
typedef __u32 conn_progress;

/*
 * Written while its slot is BUSY. Without that only `life`, `seen`, `answers_by` and both kinds of
 * progress change.
 */
struct conn {
	struct conn_life life;
	__u32 backend_id;
	__u32 frontend_id;
	__u32 seen;	  /* tick of the latest packet of either side; written once a second */
	__u32 born;	  /* tick */
	__u32 answers_by; /* ifindex of the device that requests come in by; 0: as routes say */
	union {
		conn_progress progress_client;
		__u32 questions; /* of UDP, half-open: behind the first one, and not answered */
	};
	conn_progress progress_backend;
	__u16 middle_port; /* the client's, between DNAT and SNAT, see OF_MIDDLE */
	struct conn_marks marks;
	__u8 spare; /* the round of the carry that has written it, see carry.h; 0: it began here */
	__u16 client_port;
	__u16 frontend_port;
	__u16 backend_port;
	__u16 reply_port; /* where the backend answers to; 0: no reply slot is claimed yet */
};

/* Addresses in the order of `enum conn_address`. */
struct conn4 {
	struct conn conn;
	__u8 client[4];
	__u8 frontend[4];
	__u8 backend[4];
	__u8 reply[4]; /* the SNAT address, or the client's */
};

struct conn6 {
	struct conn conn;
	__u8 client[16];
	__u8 frontend[16];
	__u8 backend[16];
	__u8 reply[16];
	__u8 pad[16];
};

enum conn_address { CONN_CLIENT, CONN_FRONTEND, CONN_BACKEND, CONN_REPLY };

/* --- indexes ---------------------------------------------------------------------------------- */

/*
 * A word of 32 bits: 0, free; else 29 bits of the key's hash, never 0, with HALF as long as the
 * connection is half-open, and BUSY while one CPU alone may change the slot and its record.
 */
#define CONN_TAG   0x1fffffffu
#define CONN_HALF  0x20000000u
#define CONN_BUSY  0x80000000u

#define CONN_SLOTS 7

/* Slot N of bucket B is of record CONN_SLOTS * B + N. */
struct client_bucket {
	__u32 word[CONN_SLOTS];
	__u32 elsewhere; /* keys whose first bucket this is, and that are in another one */
};

#define REPLY_SLOTS 7

/* Words: see reply/word.h. */
struct reply_bucket {
	__u32 word[REPLY_SLOTS];
	__u32 elsewhere;
};

/* --- counters --------------------------------------------------------------------------------- */

/*
 * Of one record: bytes in 54 bits, and packets in 42, whose upper 10 are those of the word of the
 * bytes. What one packet changes is in 12 bytes, seldom in two lines of the cache.
 */
struct conn_traffic {
	__u64 bytes; /* of the client */
	__u32 packets;
	__u32 reply_packets;
	__u64 reply_bytes;
};

#define TRAFFIC_BYTE_BITS 54
#define TRAFFIC_BYTES	  ((1ULL << TRAFFIC_BYTE_BITS) - 1)

/* What one CPU has done to the table of one family. Only grows; a line of the cache. */
struct conn_counts {
	__u64 claimed;	    /* records */
	__u64 released;	    /* also those that were evicted */
	__u64 half_claimed; /* of `claimed`: half-open */
	__u64 half_gone;    /* confirmed, or released while half-open */
	__u64 evicted;	    /* gave their slot to another */
	__u64 no_room;	    /* no slot for a client, nor one to evict */
	__u64 no_reply;	    /* no slot for a reply */
	__u64 doubled;	    /* begun on two CPUs at the same moment */
};

_Static_assert(sizeof(struct conn_life) == 8, "conn_life: one word");
_Static_assert(sizeof(struct conn) == 48, "conn");
_Static_assert(sizeof(struct conn4) == 64, "conn4: a line of the cache");
_Static_assert(sizeof(struct conn6) == 128, "conn6: two lines");
_Static_assert(sizeof(struct client_bucket) == 32, "client_bucket: half a line");
_Static_assert(sizeof(struct reply_bucket) == 32, "reply_bucket: half a line");
_Static_assert(sizeof(struct conn_traffic) == 24, "conn_traffic");
_Static_assert(sizeof(struct conn_counts) == 64, "conn_counts: a line");

#endif
