/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The structs that the packet programs share with the agent, as common/types.h has those of all
 * layers: the same rules for addresses, ports and padding. src/engines/bpf/layout/packet-layout.ts
 * has the codecs.
 */
#ifndef FAIRLEAD_PACKET_TYPES_H
#define FAIRLEAD_PACKET_TYPES_H

#include "common/types.h"

/*
 * How long the SNAT port of a connection that both sides have ended is nobody else's, as long as
 * others are free: the backend may have the connection in TIME-WAIT. As nf_conntrack's.
 */
#define RESERVED_SECONDS 120

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
	__u8 leave_new : 1;   /* no connection begins: rules of netfilter serve those that do */
	/* For the next agent: what these programs are loaded with, see features.h. */
	__u8 has_features : 1; /* the next bits say it; 0: an agent that has written none */
	__u8 with_ipv6 : 1;
	__u8 with_direct_return : 1;
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
	__u64 secret; /* key of all hashes; must not change while there are connections */
	struct flow_timeouts timeout_seconds;
	__u32 answers_per_second; /* ICMP errors and RSTs, on each CPU; 0: none are sent */
	__u16 snat_first;	  /* ports for connections that cannot have their client's */
	__u16 snat_last;
	__u8 node_address4[4]; /* for devices without an address of their own */
	__u8 node_address6[16];
	struct packet_flags flags;
	__u8 pad;
	__u16 local_first; /* ports that Linux gives to connections of the node itself, and
			      NodePorts */
	__u16 local_last;
	/*
	 * Low bits of the second since boot until which no connection begins: first packets are
	 * dropped, and sent again by their clients, while records are carried into another table.
	 * 0: never. It ends by itself, see HOLD_SECONDS, should the agent be killed meanwhile.
	 */
	__u16 hold_until;
	/*
	 * Seconds since boot: until then a TCP packet to a frontend that belongs to no known
	 * connection is left to conntrack, which may know it from an earlier proxy; then it is
	 * answered by a RST.
	 */
	__u32 reset_unknown_from;
};

/*
 * Which ports connections are given that need another one than their client's. Programs of two
 * tables that give ports at the same time must not give the same ones.
 */
enum port_share { PORTS_ALL = 0, PORTS_EVEN = 1, PORTS_ODD = 2 };

/* One element of fl_phase. */
struct table_phase {
	__u32 passes_on; /* packets of no connection here go on to the programs in fl_next */
	__u32 ports;	 /* enum port_share */
};

/* Token bucket of the answers of one CPU. */
struct answer_budget {
	__u64 refilled_ns;
	__u64 tokens;
};

/* --- sweep -------------------------------------------------------------------------------------
 */

/* What the sweep program is called with, behind an Ethernet header: buckets of the clients' index.
 */
struct sweep_call {
	__u8 family; /* enum family */
	__u8 pad[3];
	__u32 first;
	__u32 count;
};

/* What the sweep has done so far: grows. One element of fl_swept. */
struct swept {
	__u64 entries; /* connections that it looked at */
	__u64 expired; /* ended */
};

/* --- counters ----------------------------------------------------------------------------------
 */

/*
 * Of one frontend: the connections that have ended. One that lives has its counters beside its
 * record: so a packet costs no atomic operation on memory that all CPUs share.
 */
struct traffic {
	__u64 packets; /* of clients */
	__u64 bytes;
	__u64 reply_packets;
	__u64 reply_bytes;
};

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
_Static_assert(sizeof(struct table_phase) == 8, "table_phase");
_Static_assert(sizeof(struct traffic) == 32, "traffic");
_Static_assert(sizeof(struct sweep_call) == 12, "sweep_call");
_Static_assert(sizeof(struct swept) == 16, "swept");

#endif
