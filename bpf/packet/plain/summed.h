/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How far the kernel has come with the checksum of a packet. The context does not tell; it is read
 * from the kernel's struct. Not by CO-RE: libbpf would read all of the kernel's BTF for one member.
 */
#ifndef FAIRLEAD_SUMMED_H
#define FAIRLEAD_SUMMED_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/*
 * Of sk_buff.ip_summed in the running kernel, in bits. Written before load. 0: it is not known, or
 * the kernel is locked down, and lets no program read its memory.
 */
const volatile __u32 ip_summed_at = 0;

/* As in linux/skbuff.h. */
enum summed {
	SUMMED_NOT = 0,
	SUMMED_VERIFIED = 1,
	SUMMED_COMPLETE = 2, /* the kernel has the sum of the whole packet, which must stay right */
	SUMMED_PARTIAL = 3,  /* the transport header's field has only the pseudo header's sum yet */
};
#define SUMMED_MASK 3

/* Programs get the address of the kernel's struct as that of their context. */
static __always_inline enum summed summed_of(struct __sk_buff *skb)
{
	__u8 byte = 0;

	bpf_probe_read_kernel(&byte, sizeof(byte), (const __u8 *)skb + ip_summed_at / 8);
	return byte >> ip_summed_at % 8 & SUMMED_MASK;
}

#endif
