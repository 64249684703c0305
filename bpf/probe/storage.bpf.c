/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Storage of sockets alone: `fairlead probe` asks whether the kernel makes it. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} probe_storage SEC(".maps");
