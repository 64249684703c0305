/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The addresses of a record, and the three tuples of them that the indexes lead from. No maps. */
#ifndef FAIRLEAD_CONN_SIDES_H
#define FAIRLEAD_CONN_SIDES_H

#include "packet/conn/types.h"
#include "packet/tuple.h"

/* Words of a record without padding: addresses begin at the same one in both families. */
#define ADDRESS_WORD 6
#define WORDS4	     8
#define WORDS6	     14

union conn_record {
	struct conn conn;
	struct conn4 v4;
	struct conn6 v6;
	__u64 word[WORDS6 + 2];
};

static __always_inline int words_of(enum family family)
{
	return family == FAMILY_IPV4 ? WORDS4 : WORDS6;
}

/* --- addresses ---------------------------------------------------------------------------------
 */

static __always_inline const struct address *addresses4(const union conn_record *r)
{
	return as_address(r->v4.client);
}

static __always_inline const struct address *addresses6(const union conn_record *r)
{
	return as_address(r->v6.client);
}

static __always_inline void get_conn_address(const union conn_record *r, enum conn_address which,
					     struct address *a, enum family family)
{
	if (family == FAMILY_IPV4)
		set_ipv4(a, addresses4(r)->word[which]);
	else
		*a = addresses6(r)[which];
}

static __always_inline void put_conn_address(union conn_record *r, enum conn_address which,
					     const struct address *a, enum family family)
{
	if (family == FAMILY_IPV4)
		((__be32 *)addresses4(r))[which] = a->word[3];
	else
		((struct address *)addresses6(r))[which] = *a;
}

/* 0: it has the address. */
static __always_inline __u32 differs_at(const union conn_record *r, enum conn_address which,
					const struct address *a, enum family family)
{
	const struct address *own;

	if (family == FAMILY_IPV4)
		return addresses4(r)->word[which] ^ a->word[3];
	own = &addresses6(r)[which];
	return (own->word[0] ^ a->word[0]) | (own->word[1] ^ a->word[1]) |
	       (own->word[2] ^ a->word[2]) | (own->word[3] ^ a->word[3]);
}

/* --- tuples ----------------------------------------------------------------------------------- */

/*
 * The sides of a record that an index leads to. OF_MIDDLE: what the network stack of this node sees
 * of the backend of a masqueraded connection. Others are the same there as on the wire.
 */
enum conn_side { OF_CLIENT, OF_REPLY, OF_MIDDLE };

static __always_inline enum conn_address destination_of(enum conn_side side)
{
	if (side == OF_CLIENT)
		return CONN_FRONTEND;
	return side == OF_REPLY ? CONN_REPLY : CONN_CLIENT;
}

static __always_inline __u16 destination_port_of(const union conn_record *r, enum conn_side side)
{
	if (side == OF_CLIENT)
		return r->conn.frontend_port;
	return side == OF_REPLY ? r->conn.reply_port : r->conn.middle_port;
}

/* What packets of the client, or of the backend, have. */
static __always_inline void get_tuple(const union conn_record *r, enum conn_side side,
				      struct tuple *t, enum family family)
{
	bool is_client = side == OF_CLIENT;

	get_conn_address(r, is_client ? CONN_CLIENT : CONN_BACKEND, &t->source, family);
	get_conn_address(r, destination_of(side), &t->destination, family);
	t->source_port = is_client ? r->conn.client_port : r->conn.backend_port;
	t->destination_port = destination_port_of(r, side);
	t->protocol = r->conn.life.protocol;
}

/* 0: it has the tuple. Without a branch: the verifier walks every one. */
static __always_inline __u32 differs_from(const union conn_record *r, enum conn_side side,
					  const struct tuple *t, enum family family)
{
	bool is_client = side == OF_CLIENT;
	__u16 source_port = is_client ? r->conn.client_port : r->conn.backend_port;

	return (source_port ^ t->source_port) |
	       (destination_port_of(r, side) ^ t->destination_port) |
	       (r->conn.life.protocol ^ t->protocol) |
	       differs_at(r, is_client ? CONN_CLIENT : CONN_BACKEND, &t->source, family) |
	       differs_at(r, destination_of(side), &t->destination, family);
}

static __always_inline bool has_tuple(const union conn_record *r, enum conn_side side,
				      const struct tuple *t, enum family family)
{
	return !differs_from(r, side, t, family);
}

/* On the wire, or between DNAT and SNAT. */
static __always_inline bool has_reply_tuple(const union conn_record *r, const struct tuple *t,
					    enum family family)
{
	if (!differs_from(r, OF_REPLY, t, family))
		return true;
	return r->conn.life.flags.masquerade && !differs_from(r, OF_MIDDLE, t, family);
}

#endif
