/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One packet while programs work on it, and the keyed hashes of its addresses. It is in a per-CPU
 * element because the stack is too small: programs of one CPU do not interrupt each other, since tc
 * runs with bottom halves disabled. Kernels of PREEMPT_RT do not promise it, so the agent loads no
 * packet programs there.
 */
#ifndef FAIRLEAD_PACKET_H
#define FAIRLEAD_PACKET_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include "common/select.h"
#include "packet/conn/client/slot.h"
#include "packet/conn/life/believe.h"
#include "packet/features.h"
#include "packet/maps.h"
#include "packet/tuple.h"

/* Keeps what is seldom done out of the lines of the cache that most packets need. */
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define likely(condition)   __builtin_expect(!!(condition), 1)

/* No more than this, of a batch, are between ingress and egress on one CPU. */
#define LEFT_PACKETS 16

/* What a step returns if the next one decides; else a TC_ACT_*. */
#define UNDECIDED 256

/* At XDP: the programs at tc get the packet as it came. */
#define LEFT 257

/* At XDP: the packet begins another connection, in place of the one that it has found. */
#define OVER 258

/* A request of a known connection, which goes on in Geneve or IPIP. */
#define GOES_DIRECTLY 259

/*
 * What is in Geneve: to be read; a request of a known connection; one that begins a connection; one
 * that has been given back. Of BEGINS_HERE the caller makes the connection, also without Geneve.
 */
#define IN_GENEVE   260
#define GOES_ON	    261
#define BEGINS_HERE 262
#define COMES_BACK  263
/* At egress: a masqueraded connection that has no SNAT port yet. */
#define NEEDS_SNAT 265
#define NOT_HERE   264 /* its backend is not, or no longer, one of this node */

/* Of no connection in this table: the programs that use the next one decide, see conn/pass_on.h. */
#define PASS_ON 266

/* Other programs on the device go on with the packet. */
#define LEAVE TC_ACT_UNSPEC

/* Network header, with options or extension headers, and transport header of a refused packet. */
#define MAX_QUOTE 128

/* What names the backend of a packet without a record. */
enum known_by {
	KNOWN_BY_RECORD = 0, /* nothing: it begins a connection, or belongs to none */
	KNOWN_BY_TABLE = 1,  /* the table does, for all packets of the connection */
	KNOWN_BY_BASE = 2,   /* the base does */
} PACKED_ENUM;

/* To the node of a backend, for a packet in Geneve. */
struct way {
	struct address node;
	struct address source; /* of this node, as that one knows it */
	__u16 port;
	__u16 mtu;
	/* Of what came in Geneve: */
	__u8 option_flags; /* enum geneve_option_flags */
	enum family inner;
	__u8 cookie_size; /* of what came, or is to be sent; 0: it has none */
	__u8 pad;
	__u64 cookie;
	struct bpf_fib_lookup fib;
};

#define VLAN_ID 0x0fff

/* As in a frame, behind the addresses of its stations. */
struct vlan_tag {
	__be16 type; /* 0: none */
	__be16 tag;
};

/*
 * Of a plain packet, from the checksum of the IP header to that of the transport header, and so
 * aligned that addresses are words. See plain/head.h.
 */
union head4 {
	__u16 half[16];
	__u32 word[8];
};

struct packet {
	struct tuple wire; /* the packet as it stands now */
	__u16 port;	   /* as `address` */
	__u16 ip_checksum; /* of the IPv4 header, as in the packet; only if is_plain */
	__u8 tcp_flags;
	__u8 syn;		/* as in struct conn_life; 0: not a first packet of TCP */
	__u8 answered_syn;	/* of a packet of TCP that may answer a SYN: as `syn`, of that */
	__u8 has_checksum;	/* the transport header has one, and it covers the addresses */
	__u8 is_plain;		/* see plain.h */
	__u8 is_fragment;	/* of any kind */
	__u8 is_later_fragment; /* it has no ports */
	__u8 has_mac;		/* it begins with an Ethernet header */
	__u8 in_geneve;		/* it has come in Geneve, which has been taken off */
	__u8 keeps_backend;	/* of p->conn, if it has one: it is to begin again with SNAT */
	__u8 of_stale;		/* a datagram of a stale socket: see answer/stale.h */
	__u8 chunk;		/* of SCTP: enum sctp_chunk, of the first one */
	conn_progress progress; /* of TCP and SCTP: what the packet says */
	__u32 length;		/* of the network packet */
	__u32 network;		/* offset of its header */
	__u32 transport;	/* offset of the header behind it, or of a later fragment's data; of
				   an ICMP error: of the one that it quotes */
	__u32 now;		/* seconds */
	__u64 tick;		/* of the kernel's timer, when the clock was read */
	__u32 answers_by;	/* as in struct conn, of a request */
	__u32 former_backend;	/* id: the same connection has ended there before; 0: it has not */
	struct conn_env env;	/* its `now` is a tick */
	struct address address; /* what a side of the packet is rewritten to */
	union conn_record conn; /* copy of the connection's record, or a new one */
	struct conn_slot slot;	/* of that; the word only of one that a client's tuple has led to */
	struct address backend; /* of p->conn */
	struct address shown;	/* what a side of the packet becomes */
	union head4 head;	/* the stack is too small */
	/* What all packets use ends here; what some use follows. */
	struct tuple back;   /* what the other side sends, or what a connection may be known by */
	struct tuple quoted; /* by an ICMP error */
	union conn_record other; /* another connection, which is in the way */
	struct conn_slot other_slot;
	struct request request;
	struct choice choice;
	__u32 icmp; /* of an ICMP error: offset of its header */
	__u32 quoted_network;
	__u32 fragment_id;
	/* SNAT ports that were met in the search, see snat/search.h; 0: none. */
	__u16 ended_port;
	__u16 half_open_port;
	__u16 former_port; /* SNAT port that the connection has had with former_backend; 0: none */
	__u32 ended_seen;  /* as in struct conn */
	__u32 half_open_seen;
	struct address former;	/* the address of former_port */
	__u32 frontend_id;	/* of `request`; 0: there is none */
	enum known_by known_by; /* of `request`: see flow/stateless.h */
	__u8 pad3[3];
	__u8 quote[MAX_QUOTE]; /* of an ICMP error: the beginning of the packet */
	struct way way;
	/* Of packets before. */
	__u64 left[LEFT_PACKETS]; /* see leave_at_egress() */
	/* At XDP alone. */
	__u32 device;  /* see device_of() */
	__u32 came_by; /* the device of the network stack that it came in by */
	/* See xdp/vlan.h: with which it came, and with which it is to leave. */
	struct vlan_tag tag_in;
	struct vlan_tag tag_out;
	__u8 hops; /* TTL, or hop limit */
	__u8 pad2[3];
	__be32 traffic_class;	    /* IPv4: TOS, IPv6: flow information */
	__u64 frame_hash;	    /* see xdp/known.h */
	__u64 service_hash;	    /* see xdp/local.h */
	struct conn_packet headers; /* see flow/follow.h: the stack is too small */
	struct bpf_fib_lookup route;
};

/* Of the packet that this CPU works on. One element. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet);
} fl_this_packet SEC(".maps");

static __always_inline struct packet *this_packet(void)
{
	return bpf_map_lookup_elem(&fl_this_packet, &runtime_key);
}

/* Rules of netfilter serve what begins. */
static __always_inline bool leaves_new(void)
{
	const struct packet_settings *s = packet_settings();

	return s && s->flags.leave_new;
}

/* --- hashes ------------------------------------------------------------------------------------
 */

static __always_inline __u32 two_ports(__u16 high, __u16 low)
{
	return (__u32)high << 16 | low;
}

/* --- marks -------------------------------------------------------------------------------------
 */

/* A compile-time constant: destinations at ingress, or backends at egress. */
enum marks { MARKS_INGRESS = 0, MARKS_EGRESS = MARK_LINES };

/* In place of a port: SNAT addresses are marked as such, because they have thousands of ports. */
#define SNAT_PORTS 0

/* With the port of a backend: the egress program has something to do with requests to it. */
#define REQUESTS_TO 0x1000000

static __always_inline __u32 port_mark(const struct packet *p, __u16 port)
{
	return (__u32)(__u8)p->wire.protocol << 16 | port;
}

static __always_inline __u8 *mark_at(enum marks marks, __u64 hash)
{
	__u32 line = marks + (hash >> 32) / MARKS_PER_LINE % MARK_LINES;
	struct mark_line *found = bpf_map_lookup_elem(&fl_mark, &line);

	return found ? &found->mark[(hash >> 32) % MARKS_PER_LINE] : NULL;
}

/*
 * The address is marked, too, and asked for first: most packets have one that is not, and marks of
 * ports of clients would come into the caches, one line for each connection.
 */
static __always_inline bool is_marked(const struct packet *p, enum marks marks,
				      const struct address *a, __u32 port, enum family family)
{
	__u64 hash = mix_address(p->env.secret, a, family);
	__u8 *mark = mark_at(marks, hash);

	if (mark && !*mark)
		return false;
	mark = mark_at(marks, mix(hash, port));
	return !mark || *mark;
}

/* What a mark is in the present epoch. */
static __always_inline __u8 mark_of_now(void)
{
	__u32 line = EPOCH_LINE;
	const struct mark_line *found = bpf_map_lookup_elem(&fl_mark, &line);

	return found ? found->mark[0] + 1 : 1;
}

static __always_inline void put_mark(__u8 *mark, __u8 now)
{
	if (mark && *mark != now)
		*mark = now;
}

static __always_inline void set_mark(const struct packet *p, enum marks marks,
				     const struct address *a, __u32 port, enum family family)
{
	__u64 hash = mix_address(p->env.secret, a, family);
	__u8 now = mark_of_now();

	put_mark(mark_at(marks, hash), now);
	put_mark(mark_at(marks, mix(hash, port)), now);
}

/* By this a request like p->wire finds its connection. */
static __always_inline void mark_frontend(const struct packet *p, enum family family)
{
	set_mark(p, MARKS_INGRESS, &p->wire.destination, port_mark(p, p->wire.destination_port),
		 family);
}

/* By these packets from and to the backend find the connection p->conn at egress. */
static __always_inline void mark_backend(const struct packet *p, enum family family)
{
	__u16 port = p->conn.conn.backend_port;

	set_mark(p, MARKS_EGRESS, &p->backend, port_mark(p, port), family);
	/* Otherwise requests are left at egress, see on_request_out(). */
	if (p->conn.conn.life.flags.masquerade || p->wire.protocol != PROTOCOL_TCP)
		set_mark(p, MARKS_EGRESS, &p->backend, port_mark(p, port) | REQUESTS_TO, family);
}

/* --- addresses ---------------------------------------------------------------------------------
 */

static __always_inline void get_address(const __u8 *from, struct address *a, enum family family)
{
	if (family == FAMILY_IPV4)
		set_ipv4(a, *(const __be32 *)as_address(from));
	else
		*a = *as_address(from);
}

/* --- the packet --------------------------------------------------------------------------------
 */

/* The clock is read, and divided, no more than once for each tick of the kernel's timer. */
static __always_inline void set_now(struct packet *p)
{
	const struct packet_settings *s = packet_settings();
	__u64 tick = bpf_jiffies64(), ns;

	if (p->tick == tick)
		return;
	p->tick = tick;
	ns = bpf_ktime_get_ns();
	p->now = ns / NS_PER_SECOND;
	p->env.now = ns >> TICK_SHIFT;
	p->env.udp_new = s ? TICKS_OF(s->timeout_seconds.udp_new) : 0;
}

/* A packet in this second; no two have the same, and nobody else can tell what it is. */
static __always_inline __u64 hash_of_now(const struct packet *p, enum family family)
{
	return mix(hash_tuple(p->env.secret, &p->wire, family), p->now);
}

/*
 * At ingress: the egress program has nothing to do with the packet, as it stands now. A packet
 * takes no CPU but this one on its way, unless the kernel spreads packets; then, and if something
 * else has changed it, the egress program finds out by itself.
 */
static __always_inline void leave_at_egress(struct packet *p, enum family family)
{
	__u64 hash = hash_of_now(p, family);

	p->left[hash % LEFT_PACKETS] = hash;
}

static __always_inline bool is_left_at_egress(struct packet *p, enum family family)
{
	__u64 hash = hash_of_now(p, family);
	__u64 *left = &p->left[hash % LEFT_PACKETS];

	if (*left != hash)
		return false;
	*left = 0;
	return true;
}

/* A connection begins. Every UDP datagram may begin one. */
static __always_inline bool is_first(const struct packet *p)
{
	return p->wire.protocol != PROTOCOL_TCP || p->syn;
}

#endif
