/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every struct that the kernel programs share with the agent. The codecs in
 * src/engines/bpf/layout/layout.ts are tested against its BTF, field by field.
 *
 * Addresses are byte arrays in network order, so that `bpftool map dump` prints them as addresses.
 * Ports are host order everywhere; the hooks translate once, at the edge. Padding must be zero: it
 * is part of hash keys. Enums are one byte wide and print by name.
 * Also compiles as user space C.
 */
#ifndef FAIRLEAD_TYPES_H
#define FAIRLEAD_TYPES_H

#include <linux/bpf.h>
#include <linux/types.h>

#define PACKED_ENUM __attribute__((packed))

#include "common/reason.h"

enum l4_protocol {
	PROTOCOL_ANY = 0,
	PROTOCOL_TCP = 6,
	PROTOCOL_UDP = 17,
	PROTOCOL_SCTP = 132,
} PACKED_ENUM;

/*
 * Where the client is, as kube-proxy distinguishes clients: the node itself, a pod of it, or
 * outside. UNKNOWN: a socket on a kernel without network namespace cookies (before 5.14).
 */
enum client_position {
	POSITION_UNKNOWN = 0,
	POSITION_HOST = 1,
	POSITION_POD = 2,
	POSITION_OUTSIDE = 3,
} PACKED_ENUM;

/* BACKEND_FREE must be 0: array elements that were never written read as 0. */
enum backend_state {
	BACKEND_FREE = 0,
	BACKEND_ACTIVE = 1,	 /* may be in sets */
	BACKEND_TERMINATING = 2, /* no longer in any set; sockets that already use it keep it */
	BACKEND_GONE = 3,	 /* sockets that use it select another as soon as they can */
} PACKED_ENUM;

enum address_scope { SCOPE_NODE = 1, SCOPE_LOOPBACK = 2 } PACKED_ENUM;

/* --- frontends: what clients connect to ------------------------------------------------------- */

struct frontend4_key {
	__u8 address[4]; /* all zero: any address of the node (a NodePort) */
	__u16 port;	 /* 0, PROTOCOL_ANY: every port that has no frontend of its own */
	enum l4_protocol protocol;
	__u8 pad;
};

struct frontend6_key {
	__u8 address[16];
	__u16 port;
	enum l4_protocol protocol;
	__u8 pad;
};

/*
 * Value of fl_frontend4 and fl_frontend6. A key keeps its id as long as it exists: an update of a
 * hash value would free the old element, and from Linux 6.1 on the next update, of any key, reuses
 * its memory while programs still read it. Still, a reader of a key that is being deleted can see
 * the id of another key: struct frontend has the key, so that programs can compare it.
 */
struct frontend_ref {
	__u32 frontend_id; /* index of fl_frontend and fl_fe_stat; 0 is never used */
};

enum set_kind {
	SET_RANDOM = 0,		      /* every member is equally likely */
	SET_WEIGHTED_RANDOM = 1,      /* every entry of the table is */
	SET_ROUND_ROBIN = 2,	      /* members in turn, by each CPU for itself */
	SET_WEIGHTED_ROUND_ROBIN = 3, /* entries of the table in turn */
	SET_SOURCE_HASH = 4,	      /* an entry of the table, by the source's address */
	SET_MAGLEV = 5,		      /* by the addresses and ports of the flow */
	SET_LEAST_CONNECTIONS = 6,    /* of few members the one with the fewest, else of two */
	SET_WEIGHTED_LEAST_CONNECTIONS = 7, /* the same for its weight; a table of pairs */
} PACKED_ENUM;

/* A struct of its own: see struct frontend_flags. */
struct traffic_rule_flags {
	__u8 drop_if_empty : 1; /* else new connections are refused while there are no members */
	__u8 masquerade : 1;	/* the client's address must become the node's ... */
	__u8 keeps_local_client : 1; /* ... but not if the chosen backend runs on this node */
	/*
	 * Only sources in the service port's ranges (fl_range). Here and not among the flags of the
	 * frontend: it is read with the set, so no source meets the set of one Service and the
	 * ranges of another while the frontend moves between them.
	 */
	__u8 source_ranges : 1;
	__u8 : 1;
	/*
	 * Requests that would be masqueraded, of TCP and UDP, travel as they are to the node of
	 * their backend, in Geneve, if it takes that: see struct peer. The backend answers the
	 * client itself.
	 */
	__u8 direct_return : 1;
	__u8 ipip : 1; /* these travel in IPIP to their backend itself, if it is a real server */
	__u8 has_base : 1; /* behind the set is its base: see struct traffic_rule */
};

/*
 * The traffic rule for clients of one position: a set and its flags, in one word that is read and
 * written atomically. The set is a run of fl_slot_block: the service id, then `members` backend ids
 * in ascending order, so that session affinity finds a member by binary search. Kinds that select
 * by a table have it in the blocks that follow, as another run: the number of its entries, then
 * members, each as often as its weight says, as far apart as possible; of a kind that compares
 * weights each entry is a pair, the member and its weight, and the number is that of slots. The
 * slots after the last one of a run are 0. Both are immutable while any rule refers to them.
 *
 * The last run is the base: a table of Maglev that connections without a record may have been
 * chosen by. The number of its entries, the entries, and the second since boot in which it was the
 * current table for the last time. An entry of a backend that is gone becomes 0: nobody needs it.
 */
struct traffic_rule {
	__u32 block;   /* the run's first */
	__u16 members; /* 0: the set is empty, block means nothing */
	enum set_kind kind;
	struct traffic_rule_flags flags;
} __attribute__((aligned(8)));

/*
 * A struct of its own: in a struct with bit fields the kernel's BTF check takes every enum for 4
 * bytes wide and refuses one within 3 bytes of the end (btf_enum_check_kflag_member).
 */
struct frontend_flags {
	__u8 node_port : 1;	/* the wildcard: any address of the node */
	__u8 endpoint_port : 1; /* a NodePort: endpoints of its Service have the same number */
};

#define POSITIONS 4

/* One cache line. The words before `address` change in place, each atomically; the key never does.
 */
struct frontend {
	struct traffic_rule rule[POSITIONS]; /* by enum client_position */
	__u32 service_id;		     /* key of fl_service */
	__u32 affinity_seconds;		     /* 0: none */
	struct frontend_flags flags;
	__u8 family; /* 4 or 6 */
	__u16 port;
	enum l4_protocol protocol;
	__u8 pad[3];
	__u8 address[16]; /* IPv4: v4-mapped; all zero: any address of the node */
};

/* --- sets and backends ------------------------------------------------------------------------ */

#define SLOTS_PER_BLOCK 16

/* A run of these is a set: see struct traffic_rule. */
struct slot_block {
	__u32 slot[SLOTS_PER_BLOCK]; /* backend ids; first in a run: see struct traffic_rule */
};

/* Elements of fl_turn. If more sets than these are in use, two may share one: then each choice of
 * either begins a round. */
#define TURNS 4096

/* Where one CPU is in its round through a set. */
struct turn {
	__u32 block; /* the set: its first block */
	__u32 slot;  /* of the latest choice, in the members or the table; 0: there was none */
};

struct backend4 {
	__u8 address[4];
	__u16 port;
	enum backend_state state;
	__u8 local : 1; /* runs on this node */
	__u32 service_id;
	__u16 generation; /* grows each time the id is given to another backend */
	__u16 pad;
};

struct backend6 {
	__u8 address[16];
	__u16 port;
	enum backend_state state;
	__u8 local : 1;
	__u32 service_id;
	__u16 generation;
	__u16 pad;
	__u32 pad2;
};

/* "namespace/name:portname" (no colon part for an unnamed port), zero padded: the name of a
 * service_id.
 */
#define SERVICE_NAME_SIZE 196
struct service_name {
	char name[SERVICE_NAME_SIZE];
	enum l4_protocol protocol;
	__u8 family; /* 4 or 6 */
	__u8 pad[2];
};

/* --- counters: only ever grow; written with atomic adds ----------------------------------------
 */

struct frontend_stat {
	__u64 connections; /* translated connects and new UDP peers */
	__u64 refused;
	__u64 dropped;
	__u64 affinity_hits;
};

struct backend_stat {
	__u64 connections;
	__u64 closed; /* connections - closed = open now */
};

/* --- ranges of source addresses ---------------------------------------------------------------
 */

/* Key of fl_range, as BPF_MAP_TYPE_LPM_TRIE wants it. */
struct source_range_key {
	__u32 prefixlen;  /* bits that count, of service_id and address together: 32 to 160 */
	__u32 service_id; /* 0: addresses of pods */
	__u8 address[16]; /* IPv4: v4-mapped */
};

enum range_kind {
	RANGE_NONE = 0,	   /* never in the map */
	RANGE_ALLOWED = 1, /* may use the frontends of the service port that have source ranges */
	RANGE_POD = 2,	   /* clients of POSITION_POD; only with service id 0 */
	RANGE_DENIED = 3,  /* may not, unlike the rest of the shorter range around it */
} PACKED_ENUM;

struct source_range {
	enum range_kind kind;
	__u8 family; /* 4 or 6: a prefix of ::/0 contains no IPv4 address */
	__u8 pad[2];
};

/* --- session affinity --------------------------------------------------------------------------
 */

struct affinity_key {
	__u8 client[16]; /* source address; of a socket: see set_netns_source() */
	__u32 service_id;
	__u32 family; /* 4 or 6 */
};

struct affinity {
	__u32 backend_id;
	__u16 generation;
	__u16 pad;
	__u64 seen_ns; /* bpf_ktime_get_ns() of the last new connection */
};

/* --- settings ------------------------------------------------------------------------------------
 */

struct node_address {
	enum address_scope scope; /* loopback counts for sockets of the node's own namespace only */
	__u8 pad[3];
};

/* The address of this node, of each family; all zero: none is known. One element. */
struct node {
	__u8 address4[4];
	__u8 address6[16];
};

struct cgroup_skip {
	__u32 reason; /* 1: requested by a user */
};

/* Keys of fl_node_addr4 and fl_node_addr6: network order. */
struct node_address4_key {
	__u8 address[4];
};

struct node_address6_key {
	__u8 address[16];
};

/* Bits of fl_not_service for each family, and for the ports of NodePorts. */
#define RANGES		65536
#define RANGES_PER_WORD 64

/* One element; flags that change while programs run. */
struct runtime_flags {
	__u32 skipped_cgroups; /* number of entries of fl_cgroup_skip: 0 saves every look-up */
	__u32 node_ports;      /* number of wildcard frontends: 0 saves the second look-up */
	__u32 refused_sockets; /* number of entries of fl_refused_sock: 0 saves every look-up */
	__u16 direct_port;     /* UDP, of this node, for requests in Geneve; 0: none are taken */
	__u16 direct_mtu;      /* of the way between nodes, if the kernel does not tell; 0: 1500 */
};

/* If a size changes here, the layout does: change the codecs and the versions of the pins too. */
_Static_assert(sizeof(struct frontend4_key) == 8, "frontend4_key");
_Static_assert(sizeof(struct frontend6_key) == 20, "frontend6_key");
_Static_assert(sizeof(struct frontend_ref) == 4, "frontend_ref");
_Static_assert(sizeof(struct traffic_rule) == 8, "traffic_rule: read with one 64-bit load");
_Static_assert(sizeof(struct frontend) == 64, "frontend: one cache line");
_Static_assert(sizeof(struct slot_block) == 64, "slot_block: one cache line");
_Static_assert(sizeof(struct turn) == 8, "turn");
_Static_assert(sizeof(struct backend4) == 16, "backend4");
_Static_assert(sizeof(struct backend6) == 32, "backend6");
_Static_assert(sizeof(struct service_name) == 200, "service_name");
_Static_assert(sizeof(struct frontend_stat) == 32, "frontend_stat");
_Static_assert(sizeof(struct backend_stat) == 16, "backend_stat");
_Static_assert(sizeof(struct source_range_key) == 24, "source_range_key");
_Static_assert(sizeof(struct source_range) == 4, "source_range");
_Static_assert(sizeof(struct affinity_key) == 24, "affinity_key");
_Static_assert(sizeof(struct affinity) == 16, "affinity");
_Static_assert(sizeof(struct node_address) == 4, "node_address");
_Static_assert(sizeof(struct node_address4_key) == 4, "node_address4_key");
_Static_assert(sizeof(struct node_address6_key) == 16, "node_address6_key");
_Static_assert(sizeof(struct node) == 20, "node");
_Static_assert(sizeof(struct cgroup_skip) == 4, "cgroup_skip");
_Static_assert(sizeof(struct runtime_flags) == 16, "runtime_flags");

#endif
