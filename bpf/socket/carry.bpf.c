/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Iterators that carry the records of sockets over when fl_sock or fl_udp_sock gets another layout.
 * Only programs can write to the storage of sockets of others: fl_read_stored tells the agent what
 * the former map holds, the agent converts it into fl_carried, and the others store that with the
 * sockets.
 */
#include "socket/maps.h"

#include <stdbool.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Size of a value of the former map. */
const volatile __u32 former_bytes = 1;

/* A socket: its cookie is 0 until somebody asks for it, its address is another one's later. */
struct carried_key {
	__u64 address;
	__u64 cookie;
};

/* As large as the largest record. */
struct carried {
	__u8 bytes[sizeof(struct udp_peers)];
};

/* What is carried over. Written by the agent, read by the iterators; of one load of them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct carried_key);
	__type(value, struct carried);
} fl_carried SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	__s64 counter;
} atomic64_t;

struct sock_common {
	atomic64_t skc_cookie;
};

struct sock {
	struct sock_common __sk_common;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct sock *sk;
	void *value;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

#pragma clang attribute pop

static __always_inline struct carried_key key_of(struct sock *sk)
{
	return (struct carried_key){
		.address = (__u64)sk,
		.cookie = (__u64)sk->__sk_common.skc_cookie.counter,
	};
}

SEC("iter/bpf_sk_storage_map") int fl_read_stored(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;
	void *value = ctx->value;
	struct carried_key key;

	if (!sk || !value)
		return 0;
	key = key_of(sk);
	bpf_seq_write(ctx->meta->seq, &key, sizeof(key));
	bpf_seq_write(ctx->meta->seq, value, former_bytes);
	return 0;
}

static __always_inline struct carried *carried_of(struct sock *sk)
{
	struct carried_key key = key_of(sk);

	return bpf_map_lookup_elem(&fl_carried, &key);
}

/*
 * What a program has stored meanwhile stays. The socket is read once: to the verifier of Linux 6.1
 * what is read again may be NULL again.
 */
SEC("iter/bpf_sk_storage_map") int fl_store_sock(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;
	struct carried *carried = sk && ctx->value ? carried_of(sk) : NULL;

	if (carried)
		bpf_sk_storage_get(&fl_sock, sk, carried, BPF_SK_STORAGE_GET_F_CREATE);
	return 0;
}

SEC("iter/bpf_sk_storage_map") int fl_store_udp_sock(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;
	struct carried *carried = sk && ctx->value ? carried_of(sk) : NULL;

	if (carried)
		bpf_sk_storage_get(&fl_udp_sock, sk, carried, BPF_SK_STORAGE_GET_F_CREATE);
	return 0;
}
