/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Addresses as 16 bytes in network order, IPv4 v4-mapped (::ffff:a.b.c.d), and tests on them. No
 * maps.
 */
#ifndef FAIRLEAD_ADDRESS_H
#define FAIRLEAD_ADDRESS_H

#include <stdbool.h>

#include "common/types.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* As a parameter always a compile-time constant: one source, compiled once per family. */
enum family { FAMILY_IPV4 = 4, FAMILY_IPV6 = 6 } PACKED_ENUM;

struct address {
	union {
		__u8 byte[16];
		__be32 word[4];
	};
};

/* The first half of what stands for the address of a socket without one: see set_netns_source(). */
#define NETNS_SOURCE bpf_cpu_to_be64(0x0100000000000000)

static __always_inline void set_ipv4(struct address *a, __be32 ipv4)
{
	a->word[0] = 0;
	a->word[1] = 0;
	a->word[2] = bpf_htonl(0xffff);
	a->word[3] = ipv4;
}

/* Whether it is in 100::/64. */
static __always_inline bool is_netns_source(const struct address *a)
{
	return !((a->word[0] ^ bpf_htonl(0x01000000)) | a->word[1]);
}

/* The tests below avoid && so that each is one branch: the verifier walks every branch.
 */
static __always_inline bool is_mapped(const struct address *a)
{
	return !(a->word[0] | a->word[1] | (a->word[2] ^ bpf_htonl(0xffff)));
}

static __always_inline bool is_loopback4(__be32 ipv4)
{
	return (ipv4 & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
}

static __always_inline bool is_loopback6(__be32 w0, __be32 w1, __be32 w2, __be32 w3)
{
	return !(w0 | w1 | w2 | (w3 ^ bpf_htonl(1)));
}

static __always_inline bool is_loopback(const struct address *a, enum family family)
{
	if (family == FAMILY_IPV4)
		return is_loopback4(a->word[3]);
	return is_loopback6(a->word[0], a->word[1], a->word[2], a->word[3]);
}

static __always_inline bool is_unspecified(const struct address *a, enum family family)
{
	if (family == FAMILY_IPV4)
		return !a->word[3];
	return !(a->word[0] | a->word[1] | a->word[2] | a->word[3]);
}

/* Linux treats an unspecified destination as loopback; so does this, and peers show it as such. */
static __always_inline void resolve_unspecified(struct address *a, enum family family)
{
	if (is_unspecified(a, family))
		a->word[3] = bpf_htonl(family == FAMILY_IPV4 ? 0x7f000001 : 1);
}

static __always_inline bool is_same_address(const struct address *a, const struct address *b)
{
	return !((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]) | (a->word[2] ^ b->word[2]) |
		 (a->word[3] ^ b->word[3]));
}

/* The same from 16 bytes of a shared struct, which are aligned to 4 bytes. */
static __always_inline const struct address *as_address(const __u8 *bytes)
{
	return __builtin_assume_aligned(bytes, 4);
}

/* --- conditions as numbers --------------------------------------------------------------------
 *
 * 1 or 0, for loops: the verifier walks both sides of a branch in each round, with all that
 * follows.
 */

/* Else the compiler makes the branch that it knows to mean the same. */
#define HIDE(number) asm volatile("" : "+r"(number))

/* Whether a < b. Both are less than 1 << 63. */
static __always_inline __u32 is_less(__u64 a, __u64 b)
{
	__u64 less = a - b;

	HIDE(less);
	less >>= 63;
	HIDE(less);
	return less;
}

/* Whether the word is not 0. */
static __always_inline __u32 is_set(__u32 word)
{
	return is_less(0, word);
}

#endif
