/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the agent has to know of XDP on a device. Before it trusts the device: that frames come in
 * by XDP (fl_xdp_trial, in place of fl_xdp), and that the driver sends those that XDP gives it
 * (fl_xdp_send, by a test run). Then: how many frames it sent and lost, by the kernel's
 * tracepoints.
 */
#include "common/types.h"

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Where the running kernel has these members, in bytes. */
const volatile __u32 net_device_ifindex_at;
const volatile __u32 net_device_net_at;
const volatile __u32 net_inum_at;
/* Of this node's network namespace: others have devices with the same ifindexes. */
const volatile __u32 netns_inum;

/* Of one device: grows. */
struct xdp_count {
	__u64 received; /* frames that came in while it was tried */
	__u64 sent;	/* that its driver took from XDP */
	__u64 lost;	/* that XDP had to drop, because it did not */
};

/* Key: ifindex. The agent makes the entries; programs count on those that there are. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct xdp_count);
} fl_xdp_count SEC(".maps");

/* --- the trial ---------------------------------------------------------------------------------
 */

SEC("xdp") int fl_xdp_trial(struct xdp_md *ctx)
{
	__u32 ifindex = ctx->ingress_ifindex;
	struct xdp_count *count = bpf_map_lookup_elem(&fl_xdp_count, &ifindex);

	if (count)
		count->received++;
	return XDP_PASS;
}

/* A frame to nobody: of its own address, with a type for experiments. The agent builds it. */
struct test_frame {
	__u8 destination[6];
	__u8 source[6];
	__be16 type;
	__u8 pad[2];
	__u32 ifindex; /* of the device that is to send it */
};

SEC("xdp") int fl_xdp_send(struct xdp_md *ctx)
{
	struct test_frame *frame = (void *)(long)ctx->data;

	if ((void *)(frame + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	return bpf_redirect(frame->ifindex, 0);
}

/* --- what is sent and lost ---------------------------------------------------------------------
 */

struct tracepoint_args {
	__u64 arg[7];
};

static __always_inline __u64 read_pointer(__u64 base, __u32 at)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)(base + at));
	return value;
}

static __always_inline __u32 read_number(__u64 base, __u32 at)
{
	__u32 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)(base + at));
	return value;
}

static __always_inline struct xdp_count *count_of(__u32 ifindex)
{
	return bpf_map_lookup_elem(&fl_xdp_count, &ifindex);
}

static __always_inline bool is_here(__u64 device)
{
	__u64 net = read_pointer(device, net_device_net_at);

	return net && read_number(net, net_inum_at) == netns_inum;
}

/* The device, if it is one of this node's that the agent watches. */
static __always_inline struct xdp_count *count_at(__u64 device)
{
	struct xdp_count *count = count_of(read_number(device, net_device_ifindex_at));

	return count && is_here(device) ? count : NULL;
}

/* Frames that were redirected: (from, to, sent, drops, err). */
SEC("raw_tp/xdp_devmap_xmit") int fl_xdp_redirected(struct tracepoint_args *args)
{
	struct xdp_count *count = count_at(args->arg[1]);

	if (count) {
		count->sent += (__u32)args->arg[2];
		count->lost += (__u32)args->arg[3];
	}
	return 0;
}

/* Frames that go back by the device that they came from, of some drivers: (device, sent, drops,
 * err).
 */
SEC("raw_tp/xdp_bulk_tx") int fl_xdp_returned(struct tracepoint_args *args)
{
	struct xdp_count *count = count_at(args->arg[0]);

	if (count) {
		count->sent += (__u32)args->arg[1];
		count->lost += (__u32)args->arg[2];
	}
	return 0;
}

/* A frame whose device is down, or takes none: (from, program, to, err, map type, map id, index).
 * Without a map the index is the ifindex.
 */
SEC("raw_tp/xdp_redirect_err") int fl_xdp_refused(struct tracepoint_args *args)
{
	struct xdp_count *count = count_of((__u32)args->arg[6]);

	if (count && is_here(args->arg[0]))
		count->lost++;
	return 0;
}

/* A frame that the driver could not send back, or that the program gave up: (device, program,
 * action).
 */
SEC("raw_tp/xdp_exception") int fl_xdp_aborted(struct tracepoint_args *args)
{
	struct xdp_count *count = count_at(args->arg[0]);

	if (count)
		count->lost++;
	return 0;
}
