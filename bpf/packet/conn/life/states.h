/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state machine of connections: what each event makes of each state, in tables as those of
 * nf_conntrack. events.h says which event a packet is. A connection whose answers are not seen here
 * (direct return, IPIP) is one-sided, and never confirmed.
 */
#ifndef FAIRLEAD_CONN_STATES_H
#define FAIRLEAD_CONN_STATES_H

#include "packet/conn/types.h"

#include <bpf/bpf_helpers.h>

enum conn_class {
	CONN_TCP,
	CONN_ONE_SIDED_TCP,
	CONN_UDP,
	CONN_ONE_SIDED_UDP,
	CONN_SCTP,
	CONN_CLASSES,
};

/* SCTP: INIT for SYN, COOKIE-ACK for SYN-ACK, SHUTDOWN and SHUTDOWN-ACK for FIN, ABORT for RST. */
enum conn_event {
	CONN_NO_EVENT, /* also a packet that is not believed, see believe.h */
	CLIENT_LATE,   /* might begin a connection; this one has expired, or its backend is gone */
	CLIENT_SYN,
	CLIENT_DATA,  /* any packet that goes on: an ACK, a datagram, another chunk */
	CLIENT_AGAIN, /* a datagram that is sent later than in the first second */
	CLIENT_FIN,
	CLIENT_RST,
	CLIENT_DONE,  /* SHUTDOWN-COMPLETE */
	BACKEND_LATE, /* to a port of the node that the connection no longer has */
	BACKEND_SYN_ACK,
	BACKEND_DATA,
	BACKEND_FIN,
	BACKEND_RST,
	BACKEND_DONE,
	CONN_EVENTS,
	/* Not events: what the tables say of each state besides. */
	ROW_LIVENESS = CONN_EVENTS,
	ROW_KEPT, /* enum conn_timeout: for how long without a packet */
	ROW_LATE, /* after how long without a packet a first one is late */
	CONN_ROWS,
};

enum conn_effect {
	NOTES_SYN = 0x01, /* the backend is to answer this SYN */
	ANEW = 0x02,	  /* both sides' sequence numbers begin with these */
	TAKES = 0x04, /* the client's sequence numbers are these; SCTP: its tag, if none is known */
	BEGINS = 0x08,	 /* the connection is over, and the packet begins another one */
	LEAVES = 0x10,	 /* the connection is over, and the packet is of the node itself */
	BEHIND = 0x20,	 /* the event is one of the state before the RST */
	RESUMES = 0x40,	 /* that becomes the state again */
	CONFIRMS = 0x80, /* both sides have confirmed it: see take_step(), not the tables */
};

/* The one word for whether a connection goes on. */
enum conn_liveness {
	CONN_HALF_OPEN, /* may be evicted */
	CONN_LIVES,
	CONN_HALF_CLOSED, /* one side has sent its last */
	CONN_ENDED,	  /* a SYN begins another one */
	CONN_EXPIRED,	  /* neither side has sent anything for as long as its state allows */
};

/* In the order of struct flow_timeouts. */
enum conn_timeout {
	TIMEOUT_TCP_NEW,
	TIMEOUT_TCP_ESTABLISHED,
	TIMEOUT_TCP_HALF_CLOSED,
	TIMEOUT_TCP_CLOSED,
	TIMEOUT_UDP_NEW,
	TIMEOUT_UDP_ESTABLISHED,
	TIMEOUT_RESERVED, /* RESERVED_SECONDS */
};

/* Of a cell, low byte: 1 + the next state, or 0 if it stays; high byte: effects. */
#define CELL(state, effects) (1 + (state) + ((effects) << 8))

/* States that a protocol does not have; nothing changes; the next state. */
#define xxx 0
#define sIG 0
#define sAN CELL(CONN_ANSWERED, 0)
#define sES CELL(CONN_ESTABLISHED, 0)
#define sFC CELL(CONN_FIN_CLIENT, 0)
#define sFB CELL(CONN_FIN_BACKEND, 0)
#define sTW CELL(CONN_TIME_WAIT, 0)
#define sA2 CELL(CONN_ANSWERED_TWICE, 0)
#define sSH CELL(CONN_SHUTDOWN, 0)
#define sCC CELL(CONN_CLOSED_BY_CLIENT, 0)
#define sCB CELL(CONN_CLOSED_BY_BACKEND, 0)
#define sCL CELL(CONN_CLOSED, 0)
/* The state stays, with an effect. */
#define eSY (NOTES_SYN << 8)
#define eST ((NOTES_SYN | TAKES) << 8)
#define eAN (ANEW << 8)
#define eTA (TAKES << 8)
#define eBE (BEGINS << 8)
#define eLE (LEAVES << 8)
#define eBH (BEHIND << 8)
#define eRE ((BEHIND | RESUMES) << 8)
/* Both: the next state, and an effect. */
#define aAN CELL(CONN_ANSWERED, ANEW)
#define aES CELL(CONN_ESTABLISHED, ANEW)
#define tRO CELL(CONN_REOPENED, NOTES_SYN | TAKES)
#define bCC CELL(CONN_CLOSED_BY_CLIENT, BEHIND)
#define bCB CELL(CONN_CLOSED_BY_BACKEND, BEHIND)

#define lHO CONN_HALF_OPEN
#define lLI CONN_LIVES
#define lHC CONN_HALF_CLOSED
#define lEN CONN_ENDED
#define tNE TIMEOUT_TCP_NEW
#define tES TIMEOUT_TCP_ESTABLISHED
#define tHC TIMEOUT_TCP_HALF_CLOSED
#define tCL TIMEOUT_TCP_CLOSED
#define uNE TIMEOUT_UDP_NEW
#define uES TIMEOUT_UDP_ESTABLISHED
#define tRE TIMEOUT_RESERVED

/*
 * Columns: NEW, ANSWERED, ESTABLISHED, FIN_CLIENT, FIN_BACKEND, TIME_WAIT, REOPENED, SHUTDOWN,
 * ANSWERED_TWICE, CLOSED_BY_CLIENT, CLOSED_BY_BACKEND, CLOSED.
 */
static const __u16 conn_tables[CONN_CLASSES][CONN_ROWS][CONN_STATES] = {
	/*
	 * Anybody can send a SYN: the backend's answer shows that it begins another connection,
	 * even of one that is half-closed. A FIN that nothing has answered makes no connection.
	 *
	 * A side that has really sent a RST sends nothing but RSTs from then on. A RST that its
	 * receiver ignores (RFC 5961) anybody may have sent: it ends no connection that goes on. A
	 * packet that a RST has overtaken is answered by another one.
	 */
	[CONN_TCP] = {
		/* no event        */ {sIG, sIG, sIG, sIG, sIG, sIG, xxx, xxx, xxx, sIG, sIG, sIG},
		/* client late     */ {eBE, eBE, eBE, eBE, eBE, eBE, xxx, xxx, xxx, eBE, eBE, eBE},
		/* client SYN      */ {eST, eSY, eSY, eSY, eSY, eBE, xxx, xxx, xxx, eBE, eBE, eBE},
		/* client data     */ {sIG, sES, sIG, sIG, sIG, sIG, xxx, xxx, xxx, eRE, eBH, bCB},
		/* client again    */ {sIG, sIG, sIG, sIG, sIG, sIG, xxx, xxx, xxx, sIG, sIG, sIG},
		/* client FIN      */ {sIG, sFC, sFC, sIG, sTW, sIG, xxx, xxx, xxx, eRE, eBH, bCB},
		/* client RST      */ {sCC, sCC, sCC, sCC, sCC, sCC, xxx, xxx, xxx, sIG, sCL, sIG},
		/* client done     */ {sIG, sIG, sIG, sIG, sIG, sIG, xxx, xxx, xxx, sIG, sIG, sIG},
		/* backend late    */ {sIG, sIG, sIG, sIG, sIG, eLE, xxx, xxx, xxx, eLE, eLE, eLE},
		/* backend SYN-ACK */ {aAN, eAN, eAN, aES, aES, aES, xxx, xxx, xxx, eRE, eRE, eRE},
		/* backend data    */ {sAN, sIG, sIG, sIG, sIG, sIG, xxx, xxx, xxx, eBH, eRE, bCC},
		/* backend FIN     */ {sFB, sFB, sFB, sTW, sIG, sIG, xxx, xxx, xxx, eBH, eRE, bCC},
		/* backend RST     */ {sCB, sCB, sCB, sCB, sCB, sCB, xxx, xxx, xxx, sCL, sIG, sIG},
		/* backend done    */ {sIG, sIG, sIG, sIG, sIG, sIG, xxx, xxx, xxx, sIG, sIG, sIG},
		/* liveness        */ {lHO, lHO, lLI, lHC, lHC, lEN, xxx, xxx, xxx, lEN, lEN, lEN},
		/* is kept for     */ {tNE, tNE, tES, tHC, tHC, tCL, xxx, xxx, xxx, tCL, tCL, tCL},
		/* is late after   */ {tNE, tNE, tES, tHC, tHC, tCL, xxx, xxx, xxx, tCL, tCL, tCL},
	},
	/*
	 * An ACK follows an answer. Whether the backend has sent a FIN, too, is not known: a SYN
	 * after the client's may be forged, or begin another connection, as most do. It stays with
	 * its backend for as long as nf_conntrack remembers a connection that both sides have
	 * ended, and what follows shows which it was.
	 */
	[CONN_ONE_SIDED_TCP] = {
		/* no event        */ {sIG, xxx, sIG, sIG, xxx, xxx, sIG, xxx, xxx, sIG, xxx, xxx},
		/* client late     */ {eBE, xxx, eBE, eBE, xxx, xxx, eBE, xxx, xxx, eBE, xxx, xxx},
		/* client SYN      */ {eST, xxx, eSY, tRO, xxx, xxx, eSY, xxx, xxx, eBE, xxx, xxx},
		/* client data     */ {sES, xxx, sIG, sIG, xxx, xxx, sES, xxx, xxx, eRE, xxx, xxx},
		/* client again    */ {sIG, xxx, sIG, sIG, xxx, xxx, sIG, xxx, xxx, sIG, xxx, xxx},
		/* client FIN      */ {sFC, xxx, sFC, sIG, xxx, xxx, sFC, xxx, xxx, eRE, xxx, xxx},
		/* client RST      */ {sCC, xxx, sCC, sCC, xxx, xxx, sCC, xxx, xxx, sIG, xxx, xxx},
		/* client done     */ {sIG, xxx, sIG, sIG, xxx, xxx, sIG, xxx, xxx, sIG, xxx, xxx},
		/* backend late    */ {sIG, xxx, sIG, sIG, xxx, xxx, sIG, xxx, xxx, sIG, xxx, xxx},
		/* backend SYN-ACK */ {sIG, xxx, sIG, sIG, xxx, xxx, sIG, xxx, xxx, sIG, xxx, xxx},
		/* backend data    */ {sIG, xxx, sIG, sIG, xxx, xxx, sIG, xxx, xxx, sIG, xxx, xxx},
		/* backend FIN     */ {sIG, xxx, sIG, sIG, xxx, xxx, sIG, xxx, xxx, sIG, xxx, xxx},
		/* backend RST     */ {sIG, xxx, sIG, sIG, xxx, xxx, sIG, xxx, xxx, sIG, xxx, xxx},
		/* backend done    */ {sIG, xxx, sIG, sIG, xxx, xxx, sIG, xxx, xxx, sIG, xxx, xxx},
		/* liveness        */ {lHO, xxx, lLI, lHC, xxx, xxx, lHC, xxx, xxx, lEN, xxx, xxx},
		/* is kept for     */ {tNE, xxx, tES, tHC, xxx, xxx, tHC, xxx, xxx, tCL, xxx, xxx},
		/* is late after   */ {tNE, xxx, tES, tRE, xxx, xxx, tRE, xxx, xxx, tCL, xxx, xxx},
	},
	/* A question and its answer stay half-open. */
	[CONN_UDP] = {
		/* no event        */ {sIG, sIG, sIG, xxx, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx},
		/* client late     */ {eBE, eBE, eBE, xxx, xxx, xxx, xxx, xxx, eBE, xxx, xxx, xxx},
		/* client SYN      */ {sIG, sIG, sIG, xxx, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx},
		/* client data     */ {sIG, sIG, sIG, xxx, xxx, xxx, xxx, xxx, sES, xxx, xxx, xxx},
		/* client again    */ {sIG, sIG, sIG, xxx, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx},
		/* client FIN      */ {sIG, sIG, sIG, xxx, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx},
		/* client RST      */ {sIG, sIG, sIG, xxx, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx},
		/* client done     */ {sIG, sIG, sIG, xxx, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx},
		/* backend late    */ {eLE, eLE, eLE, xxx, xxx, xxx, xxx, xxx, eLE, xxx, xxx, xxx},
		/* backend SYN-ACK */ {sIG, sIG, sIG, xxx, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx},
		/* backend data    */ {sAN, sA2, sIG, xxx, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx},
		/* backend FIN     */ {sIG, sIG, sIG, xxx, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx},
		/* backend RST     */ {sIG, sIG, sIG, xxx, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx},
		/* backend done    */ {sIG, sIG, sIG, xxx, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx},
		/* liveness        */ {lHO, lHO, lLI, xxx, xxx, xxx, xxx, xxx, lHO, xxx, xxx, xxx},
		/* is kept for     */ {uNE, uNE, uES, xxx, xxx, xxx, xxx, xxx, uNE, xxx, xxx, xxx},
		/* is late after   */ {uNE, uNE, uES, xxx, xxx, xxx, xxx, xxx, uNE, xxx, xxx, xxx},
	},
	[CONN_ONE_SIDED_UDP] = {
		/* no event        */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* client late     */ {eBE, xxx, eBE, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* client SYN      */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* client data     */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* client again    */ {sES, xxx, sIG, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* client FIN      */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* client RST      */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* client done     */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* backend late    */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* backend SYN-ACK */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* backend data    */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* backend FIN     */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* backend RST     */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* backend done    */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* liveness        */ {lHO, xxx, lLI, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* is kept for     */ {uNE, xxx, uES, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
		/* is late after   */ {uNE, xxx, uES, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx, xxx},
	},
	/* A COOKIE-ACK: the client has sent its cookie back, which nobody can guess. */
	[CONN_SCTP] = {
		/* no event        */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx, sIG},
		/* client late     */ {eBE, xxx, eBE, xxx, xxx, xxx, xxx, eBE, xxx, xxx, xxx, eBE},
		/* client SYN      */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx, eBE},
		/* client data     */ {sIG, xxx, eTA, xxx, xxx, xxx, xxx, eTA, xxx, xxx, xxx, sIG},
		/* client again    */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx, sIG},
		/* client FIN      */ {sIG, xxx, sSH, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx, sIG},
		/* client RST      */ {sCL, xxx, sCL, xxx, xxx, xxx, xxx, sCL, xxx, xxx, xxx, sIG},
		/* client done     */ {sIG, xxx, sCL, xxx, xxx, xxx, xxx, sCL, xxx, xxx, xxx, sIG},
		/* backend late    */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx, sIG},
		/* backend SYN-ACK */ {aES, xxx, eAN, xxx, xxx, xxx, xxx, aES, xxx, xxx, xxx, aES},
		/* backend data    */ {sIG, xxx, sIG, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx, sIG},
		/* backend FIN     */ {sIG, xxx, sSH, xxx, xxx, xxx, xxx, sIG, xxx, xxx, xxx, sIG},
		/* backend RST     */ {sCL, xxx, sCL, xxx, xxx, xxx, xxx, sCL, xxx, xxx, xxx, sIG},
		/* backend done    */ {sIG, xxx, sCL, xxx, xxx, xxx, xxx, sCL, xxx, xxx, xxx, sIG},
		/* liveness        */ {lHO, xxx, lLI, xxx, xxx, xxx, xxx, lHC, xxx, xxx, xxx, lEN},
		/* is kept for     */ {tNE, xxx, tES, xxx, xxx, xxx, xxx, tHC, xxx, xxx, xxx, tCL},
		/* is late after   */ {tNE, xxx, tES, xxx, xxx, xxx, xxx, tHC, xxx, xxx, xxx, tCL},
	},
};

#endif
