/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A map that every kernel with BPF has: what refuses it refuses BPF. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} probe_hash SEC(".maps");
