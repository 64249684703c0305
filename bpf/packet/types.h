/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The structs that the packet programs share with the agent, as common/types.h has those of all
 * layers: the same rules for addresses, ports and padding. src/dataplane/bpf/maps/packet-layout.ts
 * has the codecs.
 *
 * A flow has two or three entries, its legs, each under the addresses that one hook sees:
 *
 * - flow: client -> frontend, at ingress of requests: the destination becomes the backend.
 * - nat: client <-> backend, at egress: the source of a reply becomes the frontend; that of a
 *   request the SNAT address, if the flow is masqueraded.
 * - snat: backend -> SNAT address, at ingress of replies, of masqueraded flows only: the
 *   destination becomes the client.
 *
 * The flow leg is the authority. From the value of each leg, the key of the one before it can be
 * made. Sizes count: with a 16-byte key and the kernel's header an element of fl_flow4 fits into
 * 128 bytes, and one of fl_snat4 into 96. Also compiles as user space C.
 */
#ifndef FAIRLEAD_PACKET_TYPES_H
#define FAIRLEAD_PACKET_TYPES_H

#include "common/types.h"

/* --- keys of flows ---------------------------------------------------------------------------- */

/* As on the wire. As key of a nat leg: source is the lower of (address, port), as bytes. */
struct tuple4 {
	__u8 source[4];
	__u8 destination[4];
	__u16 source_port;
	__u16 destination_port;
	enum l4_protocol protocol;
	__u8 pad[3];
};

struct tuple6 {
	__u8 source[16];
	__u8 destination[16];
	__u16 source_port;
	__u16 destination_port;
	enum l4_protocol protocol;
	__u8 pad[3];
};

/* --- legs --------------------------------------------------------------------------------------
 */

/* What is known from the client's packets; nat flags have what the backend did. */
enum flow_state {
	FLOW_NEW = 0,	      /* not answered, or UDP with less than two packets each way */
	FLOW_ESTABLISHED = 1, /* in the main table, or waiting for room there */
	FLOW_HALF_CLOSED = 2, /* one side sent a FIN */
	FLOW_CLOSED = 3,      /* both did, or one sent a RST */
} PACKED_ENUM;

struct flow_flags {
	__u8 masquerade : 1;
	__u8 client_fin : 1; /* the client sent a FIN */
	__u8 reset : 1;	     /* the client sent a RST */
	__u8 : 1;
	__u8 direct_return : 1; /* in Geneve to the backend's node: the flow has no other leg here
				 */
	__u8 ipip : 1;		/* the same in IPIP, to a backend that is a real server */
	__u8 of_stale : 1;	/* of one socket alone, see answer/stale.h */
};

/*
 * `check` is a keyed hash of the key and of what follows from it: it proves that a copy belongs to
 * the key that was looked up, although its memory may be given to another flow meanwhile. Seconds
 * are those of CLOCK_MONOTONIC.
 */
struct flow {
	__u32 check;
	__u32 backend_id;
	__u32 service_id;   /* of the backend */
	__u32 frontend_id;  /* index of fl_frontend and fl_fe_stat */
	__u32 seen_seconds; /* of the latest request packet */
	__u32 born_seconds;
	__u64 packets; /* of the client */
	__u64 bytes;   /* of its packets with their network headers */
	__u16 backend_port;
	__u16 generation;  /* of the backend */
	__u16 client_port; /* the client's port as the backend sees it, before SNAT */
	enum flow_state state;
	struct flow_flags flags;
};

/*
 * By the packets of one side: the upper halves of TCP's sequence number, and of the one that it
 * acknowledges. Of SCTP the verification tag. 0: not known.
 */
typedef __u32 tcp_progress;

struct flow4 {
	struct flow flow;
	__u8 backend_address[4];
	tcp_progress progress;
};

struct flow6 {
	struct flow flow;
	__u8 backend_address[16];
	tcp_progress progress;
	__u32 pad;
};

struct nat_flags {
	__u8 client_is_source : 1; /* of the key: which of its two sides is the client */
	__u8 masquerade : 1;
	__u8 replied : 1;
	__u8 backend_fin : 1;
	__u8 reset : 1;	    /* the backend sent a RST, or the client of a masqueraded flow */
	__u8 fresh : 1;	    /* no flow is known to have had this leg before */
	__u8 in_geneve : 1; /* its requests come in Geneve, from another node */
	__u8 own : 1;	    /* of a connection of the node, see snat/own.h: no request comes in */
};

struct nat {
	__u32 check;
	__u32 seen_seconds; /* of the latest reply, and of the latest masqueraded request */
	__u64 reply_packets;
	__u64 reply_bytes;
	__u16 frontend_port;
	__u16 snat_port;   /* 0: not chosen yet; written after snat_address */
	__u16 client_port; /* the client's own, as in the key of the flow leg */
	struct nat_flags flags;
	__u8 syn;	       /* of the latest SYN that was translated: see syn_of() */
	__u32 answers_by;      /* device that requests come in by; 0: answers leave as routes say */
	tcp_progress progress; /* SCTP: the tag in what the backend sends */
};

struct nat4 {
	struct nat nat;
	__u8 frontend_address[4];
	__u8 snat_address[4];
};

struct nat6 {
	struct nat nat;
	__u8 frontend_address[16];
	__u8 snat_address[16];
};

/* How one side of a TCP connection has ended it. A byte for each: both may write at once. */
struct tcp_end {
	__u8 fin : 1;
	__u8 reset : 1;
	/* The client has sent something after an answer, the backend anything, and UDP too. */
	__u8 answered : 1;
	/* Only of the client: the flow is gone, no other one gets the port, see RESERVED_SECONDS.
	 */
	__u8 reserved : 1;
};

/*
 * How long the SNAT port of a connection that both sides have ended is nobody else's, as long as
 * others are free: the backend may have the connection in TIME-WAIT. As nf_conntrack's.
 */
#define RESERVED_SECONDS 120

struct snat {
	__u32 check;
	__u32 seen_seconds; /* of the latest reply */
	__u16 client_port;  /* as in the key of the nat leg */
	struct tcp_end client_end;
	struct tcp_end backend_end;
};

struct snat4 {
	struct snat snat;
	__u8 client_address[4];
};

struct snat6 {
	struct snat snat;
	__u8 client_address[16];
};

/* --- direct return ------------------------------------------------------------------------------
 */

/* An address of another node, of those that nodes know each other by. IPv4: v4-mapped. */
struct peer_key {
	__u8 address[16];
};

/* A node that takes requests in Geneve, as this version writes them, and from which they are taken.
 */
struct peer {
	__u16 port;	   /* UDP, where it takes them */
	__u16 path_mtu;	   /* of the way there, as an ICMP error has told; 0: none has */
	__u32 path_mtu_at; /* when, in seconds */
};

/* Element of fl_backend_node. */
struct backend_node {
	/*
	 * Key of fl_peer; all zero: this node, or not known. The backend's own address: it is a
	 * real server, which takes IPIP.
	 */
	__u8 address[16];
};

/* Value of fl_path_mtu. */
struct path_mtu {
	__u32 mtu;
	__u32 told_at; /* seconds */
};

/* A backend of this node, as another one names it. */
struct local_backend_key {
	__u8 address[16]; /* IPv4: v4-mapped */
	__u32 service_id;
	__u16 port;
	__u16 pad;
};

struct local_backend {
	__u32 backend_id;
};

/* --- fragments ---------------------------------------------------------------------------------
 */

/* Later fragments of a datagram have no ports: the first one stores them. */
struct fragment_key {
	__u8 source[16]; /* IPv4: v4-mapped */
	__u8 destination[16];
	__u32 id;
	enum l4_protocol protocol;
	__u8 pad[3];
};

struct fragment_ports {
	__u32 check;
	__u16 source_port;
	__u16 destination_port;
};

/* --- marks ------------------------------------------------------------------------------------ */

#define MARKS_PER_LINE 64

/* Element of fl_mark: bytes, because a byte can be set without reading its neighbours. */
struct mark_line {
	__u8 mark[MARKS_PER_LINE];
};

/* --- devices and settings ----------------------------------------------------------------------
 */

struct device_flags {
	__u8 is_pod : 1;       /* what comes in by it is sent by a pod of this node */
	__u8 leads_to_pod : 1; /* no other node is behind it, whatever the source says */
	__u8 xdp_target : 1;   /* XDP programs may send to it: its driver takes frames */
	__u8 drops_others : 1; /* the stack drops what comes in by it for another MAC address */
	__u8 is_uplink : 1;    /* answers to what comes in by it leave by it */
	__u8 is_tunnel : 1;    /* answers that routes lead to it leave by it */
};

/* Of a device that programs are attached to. */
struct device {
	__u32 ifindex;	/* as in the key */
	__u8 snat4[4];	/* its own address: source of masqueraded packets; 0: the node's */
	__u8 snat6[16]; /* the same for IPv6 */
	struct device_flags flags;
	__u8 pad;
	__u8 mac[6]; /* zero: not known, XDP leaves what comes in by it */
};

struct packet_flags {
	__u8 reset_gone : 1;  /* a TCP packet whose backend is gone is answered by a RST */
	__u8 answer_ping : 1; /* echo requests to addresses in fl_ping are answered */
	__u8 leave_new : 1;   /* no flow begins: rules of netfilter serve what does */
};

struct flow_timeouts {
	__u32 tcp_new;
	__u32 tcp_established;
	__u32 tcp_half_closed;
	__u32 tcp_closed;
	__u32 udp_new;
	__u32 udp_established;
};

/* Key of fl_ping. */
struct ping_key {
	__u8 address[16]; /* IPv4: v4-mapped */
};

/* A hold is at most as long as this. */
#define HOLD_SECONDS 2

/* One element of fl_packet. */
struct packet_settings {
	__u64 secret; /* key of all hashes of flows; must not change while there are flows */
	struct flow_timeouts timeout_seconds;
	__u32 answers_per_second; /* ICMP errors and RSTs, on each CPU; 0: none are sent */
	__u16 snat_first;	  /* ports for flows that cannot have their client's */
	__u16 snat_last;
	__u8 node_address4[4]; /* for devices without an address of their own */
	__u8 node_address6[16];
	struct packet_flags flags;
	__u8 pad;
	__u16 local_first; /* ports that Linux gives to connections of the node itself */
	__u16 local_last;
	/*
	 * Low bits of the second since boot until which no connection begins: first packets are
	 * dropped, and sent again by their clients, while flows are carried over to other maps. 0:
	 * never. It ends by itself, see HOLD_SECONDS, should the agent be killed meanwhile.
	 */
	__u16 hold_until;
	/*
	 * Seconds since boot: until then a TCP packet to a frontend that belongs to no known flow
	 * is left to conntrack, which may know it from an earlier proxy; then it is answered by a
	 * RST.
	 */
	__u32 reset_unknown_from;
};

/* Token bucket of the answers of one CPU. */
struct answer_budget {
	__u64 refilled_ns;
	__u64 tokens;
};

/* --- sweep -------------------------------------------------------------------------------------
 */

enum flow_table {
	TABLE_FLOW4 = 0,
	TABLE_FLOW6 = 1,
	TABLE_NEW_FLOW4 = 2,
	TABLE_NEW_FLOW6 = 3,
	TABLE_NAT4 = 4,
	TABLE_NAT6 = 5,
	TABLE_NEW_NAT4 = 6,
	TABLE_NEW_NAT6 = 7,
	TABLE_SNAT4 = 8,
	TABLE_SNAT6 = 9,
	TABLE_NEW_SNAT4 = 10,
	TABLE_NEW_SNAT6 = 11,
} PACKED_ENUM;

/* Context of the sweep program: a part of the entries of one table. */
struct sweep_call {
	enum flow_table table;
	__u8 pad[3];
	__u32 slice;  /* 0 to slices - 1 */
	__u32 slices; /* not 0 */
};

/* What the sweep has done so far: grows. One element of fl_swept. */
struct swept {
	__u64 entries; /* looked at */
	__u64 expired; /* flows that were deleted with all their legs */
	__u64 orphans; /* legs that were deleted because their flow leg was gone */
};

/* --- counters ----------------------------------------------------------------------------------
 */

/*
 * Of one frontend: the flows that have ended. What lives still has its counters in its legs: so a
 * packet costs no atomic operation on memory that all CPUs share.
 */
struct traffic {
	__u64 packets; /* of clients */
	__u64 bytes;
	__u64 reply_packets;
	__u64 reply_bytes;
};

_Static_assert(sizeof(struct tuple4) == 16, "tuple4");
_Static_assert(sizeof(struct tuple6) == 40, "tuple6");
_Static_assert(sizeof(struct flow) == 48, "flow");
_Static_assert(sizeof(struct nat) == 40, "nat");
_Static_assert(sizeof(struct snat) == 12, "snat");
_Static_assert(sizeof(struct flow4) == 56, "flow4: with key and header 128 bytes");
_Static_assert(sizeof(struct flow6) == 72, "flow6: with key and header 168 bytes");
_Static_assert(sizeof(struct nat4) == 48, "nat4: with key and header 112 bytes");
_Static_assert(sizeof(struct nat6) == 72, "nat6: with key and header 160 bytes");
_Static_assert(sizeof(struct snat4) == 16, "snat4");
_Static_assert(sizeof(struct snat6) == 28, "snat6");
_Static_assert(sizeof(struct fragment_key) == 40, "fragment_key");
_Static_assert(sizeof(struct fragment_ports) == 8, "fragment_ports");
_Static_assert(sizeof(struct ping_key) == 16, "ping_key");
_Static_assert(sizeof(struct peer_key) == 16, "peer_key");
_Static_assert(sizeof(struct peer) == 8, "peer");
_Static_assert(sizeof(struct backend_node) == 16, "backend_node");
_Static_assert(sizeof(struct path_mtu) == 8, "path_mtu");
_Static_assert(sizeof(struct local_backend_key) == 24, "local_backend_key");
_Static_assert(sizeof(struct local_backend) == 4, "local_backend");
_Static_assert(sizeof(struct device) == 32, "device");
_Static_assert(sizeof(struct packet_settings) == 72, "packet_settings");
_Static_assert(sizeof(struct traffic) == 32, "traffic");
_Static_assert(sizeof(struct sweep_call) == 12, "sweep_call");
_Static_assert(sizeof(struct swept) == 24, "swept");

#endif
