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

/*
 * The id of bpf_cast_to_kern_ctx() in the kernel's BTF (Linux 6.2). Written before load. 0: there
 * is none, and a helper copies the byte, which takes 20 ns. Only where it is set the loader makes a
 * call of the function of CAST_CALL, see src/engines/bpf/kernel/loader/cast.ts.
 */
const volatile __u32 cast_function = 0;

/* The number of no helper. */
#define CAST_CALL "0x7fca5700"

/* As in linux/skbuff.h. */
enum summed {
	SUMMED_NOT = 0,
	SUMMED_VERIFIED = 1,
	SUMMED_COMPLETE = 2, /* the kernel has the sum of the whole packet, which must stay right */
	SUMMED_PARTIAL = 3,  /* the transport header's field has only the pseudo header's sum yet */
};
#define SUMMED_MASK 3

/* The kernel's struct, which may be read as memory of the program. No call in the end. */
static __always_inline const __u8 *kernel_skb(struct __sk_buff *skb)
{
	const __u8 *kernel;

	asm volatile("r1 = %1\n\tcall " CAST_CALL "\n\t%0 = r0"
		     : "=r"(kernel)
		     : "r"(skb)
		     : "r0", "r1", "r2", "r3", "r4", "r5");
	return kernel;
}

/* Programs get the address of the kernel's struct as that of their context. */
static __always_inline enum summed summed_of(struct __sk_buff *skb)
{
	__u8 byte = 0;

	if (cast_function)
		byte = kernel_skb(skb)[ip_summed_at / 8];
	else
		bpf_probe_read_kernel(&byte, sizeof(byte), (const __u8 *)skb + ip_summed_at / 8);
	return byte >> ip_summed_at % 8 & SUMMED_MASK;
}

#endif
