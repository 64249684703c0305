/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rewrites one side of a plain packet, with its checksums, in one store: what is between the two
 * checksums are the addresses and the ports. The helpers that change a checksum each look for the
 * packet's memory again, and take longer than the arithmetic.
 */
#ifndef FAIRLEAD_HEAD_H
#define FAIRLEAD_HEAD_H

#include "packet/parse.h"
#include "packet/sum.h"
#include "packet/plain/summed.h"

enum side { SIDE_SOURCE, SIDE_DESTINATION } PACKED_ENUM;

enum head4_half {
	HEAD4_IP_CHECKSUM = 1,
	HEAD4_SOURCE_PORT = 6,
	HEAD4_DESTINATION_PORT = 7,
	HEAD4_UDP_CHECKSUM = 9,
	HEAD4_TCP_CHECKSUM = 14,
};
enum head4_word { HEAD4_SOURCE = 1, HEAD4_DESTINATION = 2 };

#define HEAD4_OFFSET	 (ETH_HLEN + offsetof(struct iphdr, check))
#define HEAD4_SIZE(last) (((last) + 1 - HEAD4_IP_CHECKSUM) * sizeof(__u16))

static __always_inline bool load_head4(struct __sk_buff *skb, union head4 *head,
				       enum head4_half last)
{
	const __u16 *from = (void *)(long)skb->data + HEAD4_OFFSET;

	if ((const __u8 *)from + HEAD4_SIZE(last) > (const __u8 *)(long)skb->data_end)
		return false;
	head->half[HEAD4_IP_CHECKSUM] = from[0];
#pragma clang loop unroll(full)
	for (__u32 word = 1; word * 2 + 1 <= last; word++)
		head->word[word] = *(const __u32 *)(from + word * 2 - 1);
	if (last % 2 == 0)
		head->half[last] = from[last - HEAD4_IP_CHECKSUM];
	return true;
}

/* What a bpf_*_csum_replace() for each change does, in arithmetic of the program. */
static __always_inline int store_head4(struct __sk_buff *skb, union head4 *head, enum side side,
				       __be32 to, __u16 to_port, enum head4_half last)
{
	__u32 *address = &head->word[side == SIDE_SOURCE ? HEAD4_SOURCE : HEAD4_DESTINATION];
	__u16 *port = &head->half[side == SIDE_SOURCE ? HEAD4_SOURCE_PORT : HEAD4_DESTINATION_PORT];
	__u16 *ip = &head->half[HEAD4_IP_CHECKSUM], *sum = &head->half[last];
	__u32 from = *address;
	__u64 change = (__u64)(__u32)~from + to;
	enum summed summed = summed_of(skb);

	*ip = ~fold((__u16) ~*ip + change);
	if (summed == SUMMED_PARTIAL)
		*sum = fold(*sum + change);
	else
		*sum = ~fold((__u16) ~*sum + change + (__u16) ~*port + bpf_htons(to_port));
	if (last == HEAD4_UDP_CHECKSUM && !*sum)
		*sum = 0xffff;
	if (summed == SUMMED_COMPLETE)
		bpf_csum_update(skb, fold((__u64)from + (__u32)~to));
	*address = to;
	*port = bpf_htons(to_port);
	return bpf_skb_store_bytes(skb, HEAD4_OFFSET, ip, HEAD4_SIZE(last), 0);
}

static __always_inline int rewrite_head4(struct __sk_buff *skb, struct packet *p, enum side side,
					 __be32 to, __u16 to_port)
{
	if (p->wire.protocol == PROTOCOL_TCP)
		return load_head4(skb, &p->head, HEAD4_TCP_CHECKSUM)
			       ? store_head4(skb, &p->head, side, to, to_port, HEAD4_TCP_CHECKSUM)
			       : -1;
	return load_head4(skb, &p->head, HEAD4_UDP_CHECKSUM)
		       ? store_head4(skb, &p->head, side, to, to_port, HEAD4_UDP_CHECKSUM)
		       : -1;
}

#endif
