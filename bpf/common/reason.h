/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Why something became of a socket call or of a packet: part of types.h, which includes this. */
#ifndef FAIRLEAD_REASON_H
#define FAIRLEAD_REASON_H

/* Elements of fl_reason: spare ones allow for more reasons without a new layout. */
#define REASONS 64

/*
 * The outcome of a socket call or of a packet of no connection, or why it was not translated.
 * Append only; index of fl_reason.
 */
enum reason {
	REASON_TRANSLATED = 0,
	REASON_NOT_A_FRONTEND = 1,
	REASON_SKIPPED_CGROUP = 2, /* its cgroup is bypassed */
	/* 3 is reserved. */
	REASON_SKIPPED_LOOPBACK_SOURCE = 4, /* bound to loopback, backend is not */
	REASON_REFUSED_NO_BACKENDS = 5,
	REASON_DROPPED_NO_LOCAL_BACKENDS = 6,
	REASON_STALE_BACKEND = 7,     /* a slot named a backend of another service twice in a row */
	REASON_NO_SOCKET_STORAGE = 8, /* translated, but replies cannot be reverse-translated */
	REASON_REVERSE_TRANSLATED = 9, /* recvmsg or getpeername showed the Service address */
	REASON_FLOW_ENDED = 10,	       /* the backend of an established flow is gone */
	/* The frontend has source ranges, and the socket is not bound to an address: packets
	   decide. */
	REASON_SKIPPED_SOURCE_RANGES = 11,
	REASON_DROPPED_SOURCE_RANGES = 12, /* the source is in none of the frontend's ranges */
	/* Of packets: */
	REASON_TRUNCATED_HEADER = 13, /* it ends inside of a header, or before its length says */
	REASON_BAD_HEADER = 14,	      /* a header contradicts itself */
	REASON_TOO_MANY_HEADERS = 15, /* more IPv6 extension headers than are skipped */
	REASON_DROPPED_MARTIAN = 16,  /* a loopback destination from a device */
	REASON_DROPPED_FRAGMENT = 17, /* of a datagram whose first fragment was not seen */
	REASON_UNKNOWN_CONNECTION =
		18,		     /* TCP to a frontend: of no connection, and no first packet */
	REASON_ANSWER_LIMITED = 19,  /* more refusals a second than may be answered */
	REASON_NOT_ANSWERED = 20,    /* refused without an answer: it cannot be given */
	REASON_FLOW_TABLE_FULL = 21, /* no longer counted */
	REASON_DROPPED_NO_FLOW = 22, /* a new connection found no slot */
	REASON_DROPPED_NO_PORT = 23, /* no port is free for the client at this backend */
	REASON_DROPPED_NO_ADDRESS = 24,	 /* masqueraded, and no address is known for that */
	REASON_NOT_REWRITTEN = 25,	 /* dropped: the kernel refused to change the packet */
	REASON_CLIENT_PORT_CHANGED = 26, /* another connection to the backend had its own */
	REASON_ICMP_TRANSLATED = 27,	 /* an ICMP error about a connection */
	/* Of sockets: */
	REASON_REFUSED_BIND = 28, /* a process of the node wanted to bind a NodePort */
	/* Of packets: */
	REASON_PING_ANSWERED = 29,	  /* an echo request to an address in fl_ping */
	REASON_HALF_OPEN_EVICTED = 30,	  /* a half-open connection lost its SNAT port */
	REASON_REFUSED_STALE_SOCKET = 31, /* of a connected UDP socket whose backend is gone */
	/* Of Maglev: */
	REASON_ADOPTED = 32, /* TCP that begins no connection: its table knows the backend */
	/* 33 to 35 are reserved. */
	/* Of direct return, at the node that chose the backend: */
	REASON_DIRECT_TOO_BIG = 36,	  /* with its outer headers for the way: refused by ICMP */
	REASON_DIRECT_NO_PEER = 37,	  /* the backend's node takes no requests any more */
	REASON_DIRECT_NO_ROUTE = 38,	  /* to the backend's node, or none that can be used */
	REASON_DIRECT_NOT_WRAPPED = 39,	  /* the kernel refused to make room for the headers */
	REASON_DIRECT_ICMP = 40,	  /* an ICMP error about a packet in a tunnel */
	REASON_DIRECT_TIME_EXCEEDED = 41, /* its last hop would have been this node */
	/* At the node of the backend, of Geneve that has the VNI and option of this proxy: */
	REASON_GENEVE_STRANGER = 42,	   /* from no node that may send it */
	REASON_GENEVE_MALFORMED = 43,	   /* truncated, an unknown version, other options */
	REASON_GENEVE_NOT_A_FRONTEND = 44, /* the packet in it is for no Service that takes it */
	REASON_GENEVE_NO_BACKEND = 45,	   /* names no backend of that Service on this node */
	REASON_GENEVE_NOT_UNWRAPPED = 46,  /* the kernel refused to take off the headers */
	/* At the node that chose the backend: */
	REASON_DIRECT_GIVEN_BACK = 47, /* by the backend's node, which does not serve it: SNAT */
	/* Of packets of connections at XDP: */
	REASON_XDP_SENT = 48,	      /* translated and sent on; all others are left to tc: */
	REASON_XDP_NO_TARGET = 49,    /* they go to a pod, a tunnel, any device without XDP */
	REASON_XDP_NO_NEIGHBOUR = 50, /* the address of the next station is not known */
	REASON_XDP_TOO_BIG = 51,      /* for the way on */
	REASON_XDP_NO_WAY = 52,	      /* to this node itself, or no route that XDP can take */
	REASON_XDP_OTHER_WAY = 53,    /* the sender is reached by another device */
	REASON_XDP_UNFINISHED = 54,   /* the sender left the checksum to the device */
	REASON_XDP_RENEWS = 55,	      /* the stack is to keep the next station known */
	/* Of direct return, at the node that chose the backend: */
	REASON_DIRECT_OUTDATED = 56, /* given back, but has another backend by now: dropped */
	/* Of answers, where the routes lead to another device than the requests came in by: */
	REASON_ANSWER_SENT_BACK = 57, /* it leaves by the device of the requests */
	REASON_ANSWER_NO_WAY = 58,    /* that one has no way to the client: as the routes say */
	/* Of datagrams of this node whose socket insists on a device: */
	REASON_SENT_ON = 59, /* it leaves by the device that its backend is behind */
	/* Of sockets: */
	REASON_SKIPPED_NETNS = 60, /* its network namespace is served as packets */
	/* Of Geneve at the node of the backend: */
	REASON_GENEVE_NO_COOKIE = 61, /* no cookie of the cluster: its sender has not the secret */
	/*
	 * Of packets: another CPU was at work on its connection for too long, or connections were
	 * being carried into another table.
	 */
	REASON_DROPPED_BUSY = 62,
};

#endif
