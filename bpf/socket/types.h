/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The structs of records of sockets, as common/types.h has those of all layers. */
#ifndef FAIRLEAD_SOCKET_TYPES_H
#define FAIRLEAD_SOCKET_TYPES_H

#include "common/types.h"

/* IPv4 addresses are v4-mapped here, so one record serves every kind of socket. */
struct socket_peer {
	__u8 service_address[16];
	__u8 backend_address[16];
	__u16 service_port;
	__u16 backend_port;
	__u32 backend_id;
	__u32 service_id;
	__u16 generation;
	enum l4_protocol protocol;
	__u8 family; /* 4 or 6: which backend array; 0: record unused */
};

/* Of an unconnected UDP socket: its first flows. Further ones are in fl_udp_flow. */
#define UDP_PEERS 3
struct udp_peers {
	__u32 sequence;		  /* grows with every datagram to a Service */
	__u32 has_further;	  /* 1: the socket has flows in fl_udp_flow */
	__u32 used_at[UDP_PEERS]; /* `sequence` of the latest datagram of each */
	__u32 pad;
	struct socket_peer peer[UDP_PEERS];
};

/* The direction that a key of fl_udp_flow is for. */
enum udp_direction { UDP_TO_BACKEND = 0, UDP_TO_SERVICE = 1 } PACKED_ENUM;

struct udp_flow_key {
	__u64 socket; /* its cookie: never reused for another socket */
	__u8 address[16];
	__u16 port;
	enum udp_direction direction;
	__u8 pad[5];
};

struct udp_flow {
	__u64 socket; /* as in the key; first, so that it is written first */
	struct socket_peer peer;
	__u32 sequence; /* of the latest datagram, as in struct udp_peers */
	__u32 pad;
};

/* Key of fl_netns for namespaces that have no answer yet: no cookie is 0. */
#define NETNS_UNKNOWN 0

enum scope_state {
	SCOPE_ASKED = 0,   /* not looked at yet */
	SCOPE_SOCKETS = 1, /* its sockets are served by the socket hooks */
	SCOPE_PACKETS = 2, /* they are left alone, and its packets are translated */
} PACKED_ENUM;

/* What is known of a network namespace. `found` is for people: src/engines/bpf/scope/state.ts. */
struct netns_scope {
	__u32 tgid; /* of the process that asked first, in the initial process namespace; 0: none */
	__u16 found;
	enum scope_state state;
	__u8 pad;
};

_Static_assert(sizeof(struct netns_scope) == 8, "netns_scope");
_Static_assert(sizeof(struct socket_peer) == 48, "socket_peer");
_Static_assert(sizeof(struct udp_peers) == 24 + UDP_PEERS * 48, "udp_peers");
_Static_assert(sizeof(struct udp_flow_key) == 32, "udp_flow_key");
_Static_assert(sizeof(struct udp_flow) == 64, "udp_flow");

#endif
