// SPDX-License-Identifier: Apache-2.0
/*
 * What feed.c tells the programs of bench/bpf/frames.bpf.c, and what they count.
 */
#ifndef FAIRLEAD_BENCH_FRAMES_H
#define FAIRLEAD_BENCH_FRAMES_H

#include <linux/types.h>

#define FRAME_SIZE 60 /* with the checksum of Ethernet 64, the smallest there is */
/* Clients: 10.200.0.0/16. Servers: whatever is sent to this port. */
#define CLIENTS	    0x0ac80000
#define SERVER_PORT 9000

/* How frames follow each other. */
enum order {
	IN_TURN, /* the flows one after the other */
	RANDOM,	 /* one of the flows */
	NEW,	 /* never the same again */
};

/* What clients and servers do. */
enum manner {
	SINK,	/* drop what comes */
	ANSWER, /* and end connections as soon as they begin */
};

struct task {
	__u8 frame[FRAME_SIZE]; /* with 0 for source, destination, ports and checksums */
	__u32 sum;		/* of the rest of it, and of its pseudo header */
	__u32 ip_sum;
	__u32 ifindex; /* of the client's device */
	__u32 order;
	__u32 manner;
	__u32 flows;
	__u32 targets;
	/* Of the first target, and of the next one from there. */
	__u32 address, address_step;
	__u32 port, port_step;
	__u32 pad;
	__u64 next; /* the number of frames until now */
};

enum counter {
	AT_SERVER,
	AT_CLIENT,
	AT_NODE, /* dropped as they came in */
	COUNTERS,
};

#endif
