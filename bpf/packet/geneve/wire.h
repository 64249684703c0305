/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Direct return on the wire: a client's packet as it was sent, behind IP, UDP and Geneve headers
 * (RFC 8926) from the node that chose the backend to that of the backend. One critical option names
 * the backend, and may end with a cookie; no Ethernet header is inside. What has another VNI or
 * option is of another tunnel, and left alone. docs/adr/0037 and 0046 have the layout.
 */
#ifndef FAIRLEAD_GENEVE_WIRE_H
#define FAIRLEAD_GENEVE_WIRE_H

#include "packet/parse.h"

#define GENEVE_PORT	    6081 /* unless the node says another one */
#define GENEVE_VNI	    0xfa1ead
#define GENEVE_CRITICAL	    0x40 /* of the flags: an option is critical */
#define GENEVE_CLASS	    0xff46
#define GENEVE_TYPE	    0x81 /* 1, critical: who does not know it must not take the packet */
#define GENEVE_TYPE_VERSION 1

/* The node of the backend sends a request back as it came. */
enum geneve_option_flags { GENEVE_GIVEN_BACK = 1 } PACKED_ENUM;

struct geneve {
	__u8 words; /* version 0 in the upper two bits; length of the options, in words */
	__u8 flags;
	__be16 protocol; /* EtherType of what follows */
	__be32 vni;	 /* in the upper 24 bits */
};

struct geneve_option {
	__be16 class;
	__u8 type;
	__u8 words; /* of the data, which begins with `version` */
	__u8 version;
	__u8 flags; /* enum geneve_option_flags */
	__be16 port;
	__be32 backend[4]; /* the first word alone for IPv4; behind it the cookie, if there is one
			    */
};

struct geneve_head {
	struct geneve geneve;
	struct geneve_option option;
};

#define OPTION_FLAGS offsetof(struct geneve_head, option.flags)

/* Of the data of the option, in words, without a cookie. */
#define GENEVE_DATA_WORDS(family) ((family) == FAMILY_IPV4 ? 2 : 5)

#define COOKIE_SIZE		  sizeof(__u64)
#define COOKIE_WORDS		  (COOKIE_SIZE / 4)

/* Both headers, with an option for a backend of the family, without a cookie. */
#define GENEVE_SIZE4 (sizeof(struct geneve_head) - 3 * sizeof(__be32))
#define GENEVE_SIZE6 sizeof(struct geneve_head)

struct outer4 {
	struct iphdr ip;
	struct udphdr udp;
};

struct outer6 {
	struct ipv6hdr ip;
	struct udphdr udp;
};

static __always_inline enum family family_of(const struct address *a)
{
	return is_mapped(a) ? FAMILY_IPV4 : FAMILY_IPV6;
}

/* Of all headers, by the family of the nodes and that of the Service. */
static __always_inline __u32 overhead_of(enum family outer, enum family inner, __u32 cookie_size)
{
	return (outer == FAMILY_IPV4 ? sizeof(struct outer4) : sizeof(struct outer6)) +
	       (inner == FAMILY_IPV4 ? GENEVE_SIZE4 : GENEVE_SIZE6) + cookie_size;
}

/* Of what has come by p->way, or is to be sent there. */
static __always_inline __u32 overhead_by(const struct way *way, enum family inner)
{
	return overhead_of(family_of(&way->node), inner, way->cookie_size);
}

_Static_assert(sizeof(struct geneve_head) == 32, "geneve_head");
_Static_assert(sizeof(struct outer4) == 28, "outer4");
_Static_assert(sizeof(struct outer6) == 48, "outer6");

#endif
