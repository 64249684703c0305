/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A ring buffer alone: `fairlead probe` asks whether the kernel makes one. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536); /* a multiple of every page size */
} probe_ring SEC(".maps");
