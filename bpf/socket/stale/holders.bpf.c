/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An iterator over the open files of the processes that the reader sees (Linux 5.12): which of them
 * are stale UDP sockets that the agent asks for. By one of its descriptors, whichever is met first,
 * it connects such a socket again.
 */
#include "socket/maps.h"
#include "socket/stale/stale.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* As many as the agent asks for at once: src/engines/bpf/stale-sockets/keeping.ts. */
#define ASKED_SOCKETS 8192

/*
 * The sockets whose descriptors are asked for. Written by the agent. Key: socket cookie. Value: 0,
 * then 1 when it is found.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, ASKED_SOCKETS);
	__type(key, __u64);
	__type(value, __u32);
} fl_asked SEC(".maps");

/* Read by src/engines/bpf/kernel/stale-sockets/connecting.ts. */
struct holder {
	__u64 cookie;
	__u32 process; /* as the first PID namespace numbers it */
	__u32 descriptor;
};

_Static_assert(sizeof(struct holder) == 16, "holder");

/* Keeps the struct in the object's BTF, with which a test compares the agent's codec. */
const struct holder *const volatile holder_layout = NULL;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct file;

struct socket {
	struct sock *sk;
};

struct task_struct {
	int tgid;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

#pragma clang attribute pop

SEC("iter/task_file") int fl_find_holders(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct holder found = {};
	struct socket_peer *peer;
	struct socket *socket;
	struct sock *sk;
	__u32 *is_found;

	if (!task || !file)
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sk = socket->sk;
	if (!sk || sk->sk_protocol != IPPROTO_UDP)
		return 0;
	peer = bpf_sk_storage_get(&fl_sock, sk, 0, 0);
	if (!peer || !is_stale(peer) || !is_connected_to(&sk->__sk_common, peer))
		return 0;
	found.cookie = bpf_get_socket_cookie(sk);
	is_found = bpf_map_lookup_elem(&fl_asked, &found.cookie);
	if (!is_found || *is_found)
		return 0;
	found.process = task->tgid;
	found.descriptor = ctx->fd;
	/* Where the reader's buffer has no room, the kernel calls again with the same file. */
	if (bpf_seq_write(ctx->meta->seq, &found, sizeof(found)) == 0)
		*is_found = 1;
	return 0;
}
