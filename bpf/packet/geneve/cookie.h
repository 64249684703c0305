/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The cookie of the cluster: SipHash-2-4 over the node that wraps a request and over the request's
 * addresses and ports, with a key that nodes alone know. So the address of a node is not enough to
 * send requests in its name, and a cookie that was seen is worth nothing for another connection.
 */
#ifndef FAIRLEAD_GENEVE_COOKIE_H
#define FAIRLEAD_GENEVE_COOKIE_H

#include "packet/geneve/wire.h"

/* NULL: the cluster has no secret, and no cookie is sent or asked for. */
static __always_inline const struct cookies *cookies(void)
{
	return bpf_map_lookup_elem(&fl_cookie, &runtime_key);
}

/* --- SipHash -----------------------------------------------------------------------------------
 */

struct sip {
	__u64 v0, v1, v2, v3;
};

static __always_inline __u64 rotate(__u64 word, int bits)
{
	return word << bits | word >> (64 - bits);
}

static __always_inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = rotate(s->v1, 13) ^ s->v0;
	s->v3 = rotate(s->v3, 16) ^ s->v2;
	s->v0 = rotate(s->v0, 32);
	s->v2 += s->v1;
	s->v0 += s->v3;
	s->v1 = rotate(s->v1, 17) ^ s->v2;
	s->v3 = rotate(s->v3, 21) ^ s->v0;
	s->v2 = rotate(s->v2, 32);
}

static __always_inline void sip_begin(struct sip *s, const struct cookie_key *key)
{
	s->v0 = key->word[0] ^ 0x736f6d6570736575ULL;
	s->v1 = key->word[1] ^ 0x646f72616e646f6dULL;
	s->v2 = key->word[0] ^ 0x6c7967656e657261ULL;
	s->v3 = key->word[1] ^ 0x7465646279746573ULL;
}

static __always_inline void sip_word(struct sip *s, __u64 word)
{
	s->v3 ^= word;
	sip_round(s);
	sip_round(s);
	s->v0 ^= word;
}

/* What a cookie is of, as SipHash reads it. */
struct cookie_text {
	struct address node; /* that wraps the request */
	struct address source;
	struct address destination;
	__u16 protocol;
	__u16 destination_port;
	__u16 source_port;
	__u16 pad;
};

union cookie_words {
	struct cookie_text text;
	__u64 word[sizeof(struct cookie_text) / sizeof(__u64)];
};

#define COOKIE_TEXT_WORDS (sizeof(struct cookie_text) / sizeof(__u64))

/* In a loop: there the verifier sees that all ways to it lead to the same. */
static __always_inline __u64 sip_hash(const struct cookie_key *key, const union cookie_words *words)
{
	struct sip s;

	sip_begin(&s, key);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < COOKIE_TEXT_WORDS; i++)
		sip_word(&s, words->word[i]);
	sip_word(&s, (__u64)sizeof(words->text) << 56);
	s.v2 ^= 0xff;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 4; i++)
		sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* --- cookies -----------------------------------------------------------------------------------
 */

/*
 * Of the request p->wire, wrapped by this node (p->way.source) or by another one (p->way.node).
 * Global: both hash with either key.
 */
__noinline __u64 fl_make_cookie(__u32 key, bool is_own)
{
	struct packet *p = this_packet();
	const struct cookies *c = cookies();
	union cookie_words words = {};

	if (!p || !c)
		return 0;
	words.text.node = is_own ? p->way.source : p->way.node;
	words.text.source = p->wire.source;
	words.text.destination = p->wire.destination;
	words.text.protocol = (__u8)p->wire.protocol;
	words.text.destination_port = p->wire.destination_port;
	words.text.source_port = p->wire.source_port;
	return sip_hash(&c->key[key & 1], &words);
}

/* Of the request p->wire, which is to be sent to p->way. */
static __always_inline void set_cookie(struct packet *p)
{
	const struct cookies *c = cookies();

	p->way.cookie_size = c && c->is_sent ? COOKIE_SIZE : 0;
	if (p->way.cookie_size)
		p->way.cookie = fl_make_cookie(0, true);
}

/* The request p->wire has come by p->way, with a cookie that may be sent, or needs none. */
static __always_inline bool is_of_cluster(const struct packet *p)
{
	const struct cookies *c = cookies();
	/* What is given back has the cookie that this node gave it. */
	bool is_own = p->way.option_flags & GENEVE_GIVEN_BACK;

	if (!c)
		return true;
	if (!p->way.cookie_size)
		return c->takes_none;
	return fl_make_cookie(0, is_own) == p->way.cookie ||
	       (c->keys > 1 && fl_make_cookie(1, is_own) == p->way.cookie);
}

#endif
