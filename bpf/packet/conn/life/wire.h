/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers of transport headers that say how a connection goes on. */
#ifndef FAIRLEAD_CONN_WIRE_H
#define FAIRLEAD_CONN_WIRE_H

#include "common/types.h"

#include <bpf/bpf_helpers.h>

enum tcp_flags { TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_ACK = 16 };

/* Types of the first chunk of a packet of SCTP. */
enum sctp_chunk {
	SCTP_DATA = 0, /* and all that are not here */
	SCTP_INIT = 1,
	SCTP_INIT_ACK = 2,
	SCTP_ABORT = 6,
	SCTP_SHUTDOWN = 7,
	SCTP_SHUTDOWN_ACK = 8,
	SCTP_COOKIE_ECHO = 10,
	SCTP_COOKIE_ACK = 11,
	SCTP_SHUTDOWN_COMPLETE = 14,
	SCTP_CHUNKS = 16,
} PACKED_ENUM;

static __always_inline enum sctp_chunk chunk_of(__u8 type)
{
	const __u32 known = 1 << SCTP_INIT | 1 << SCTP_INIT_ACK | 1 << SCTP_ABORT |
			    1 << SCTP_SHUTDOWN | 1 << SCTP_SHUTDOWN_ACK | 1 << SCTP_COOKIE_ECHO |
			    1 << SCTP_COOKIE_ACK | 1 << SCTP_SHUTDOWN_COMPLETE;

	return type < SCTP_CHUNKS && known >> type & 1 ? type : SCTP_DATA;
}

#endif
