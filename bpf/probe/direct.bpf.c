/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Direct return on one frame, by the functions of the packet programs: headers around a packet and
 * off it again, as they change the bytes. The agent runs them before it takes part in direct
 * return, and so does `fairlead probe`. What is in the headers is not the kernel's affair.
 */
#include <linux/pkt_cls.h>

#include "packet/geneve/room.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define AF_INET	     2
#define AF_INET6     10
#define EAFNOSUPPORT 97

/* As the largest of the headers. */
#define MOST_WORDS    20
#define FILLER	      0x5a5a5a5a
#define SECOND_FACTOR 0x10000

/* What failed, with the kernel's error: see src/engines/bpf/direct-return/kernel/direct-trial.ts.
 */
enum step { STEP_ROOM = 1, STEP_WRITE = 2, STEP_ROUTE = 3, STEP_TAKE_OFF = 4 } PACKED_ENUM;

static __always_inline int failed(enum step step, long error)
{
	return step * SECOND_FACTOR + (-error & (SECOND_FACTOR - 1));
}

/* Which route is none of a trial's business, nor whether this device forwards. */
static __always_inline long look_up(struct __sk_buff *skb, struct bpf_fib_lookup *fib)
{
	long result = bpf_fib_lookup(skb, fib, sizeof(*fib), 0);

	/* A kernel without IPv6 has no nodes of it. */
	return result == -EAFNOSUPPORT && fib->family == AF_INET6 ? 0 : result;
}

/* Word by word, because older verifiers take no size that may be 0. */
static __always_inline long write_headers(struct __sk_buff *skb, __u32 size)
{
	__u32 filler = FILLER;
	long error = 0;

	for (__u32 word = 0; word < MOST_WORDS && word * sizeof(filler) < size; word++)
		error |= bpf_skb_store_bytes(skb, ETH_HLEN + word * sizeof(filler), &filler,
					     sizeof(filler), 0);
	return error;
}

/* skb->cb: the family outside, the bytes of the headers, flags for what follows the outer one. */
SEC("tc") int probe_wrap(struct __sk_buff *skb)
{
	enum family outer = skb->cb[0] == FAMILY_IPV4 ? FAMILY_IPV4 : FAMILY_IPV6;
	__u32 size = skb->cb[1];
	struct bpf_fib_lookup fib = {
		.family = outer == FAMILY_IPV4 ? AF_INET : AF_INET6,
		.ifindex = skb->ifindex,
		.l4_protocol = 17,
	};
	long error;

	error = make_room_around(skb, size,
				 skb->cb[2] | BPF_F_ADJ_ROOM_FIXED_GSO | flags_of_outer(outer));
	if (error)
		return failed(STEP_ROOM, error);
	error = write_headers(skb, size);
	if (error)
		return failed(STEP_WRITE, error);
	error = look_up(skb, &fib);
	if (error < 0)
		return failed(STEP_ROUTE, error);
	write_ethertype(skb);
	return send_by(&fib);
}

/* skb->cb: the families outside and inside, the bytes of the headers. */
SEC("tc") int probe_unwrap(struct __sk_buff *skb)
{
	enum family outer = skb->cb[0] == FAMILY_IPV4 ? FAMILY_IPV4 : FAMILY_IPV6;
	enum family inner = skb->cb[1] == FAMILY_IPV4 ? FAMILY_IPV4 : FAMILY_IPV6;
	long error = take_off(skb, skb->cb[2], outer, inner);

	if (error)
		return failed(STEP_TAKE_OFF, error);
	write_ethertype(skb);
	return TC_ACT_OK;
}
