/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Iterators that destroy sockets of the reader's network namespace, from Linux 6.5. The kernel
 * holds the socket's lock meanwhile, as the hooks have it held when they write a record.
 */
#include "socket/maps.h"
#include "socket/stale/stale.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* As many as the agent asks for at once: src/engines/bpf/stale-sockets/keeping.ts. */
#define CHOSEN_SOCKETS		 8192

#define OUTCOME_DESTROYED	 1
#define CHOSEN_WITH_OTHER_RECORD 2

/*
 * The sockets to destroy: stale ones that the agent has chosen. Written by the agent, which reads
 * the outcomes. Key: socket cookie. Value: 0 or CHOSEN_WITH_OTHER_RECORD, then OUTCOME_DESTROYED or
 * a negative errno.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CHOSEN_SOCKETS);
	__type(key, __u64);
	__type(value, __s32);
} fl_chosen SEC(".maps");

extern int bpf_sock_destroy(struct sock_common *sk) __ksym;

static __always_inline __s32 *chosen(struct sock_common *sk)
{
	__u64 cookie = sk->skc_cookie.counter;

	return cookie ? bpf_map_lookup_elem(&fl_chosen, &cookie) : NULL;
}

/*
 * It may have been connected to something else since it was found. If the agent failed to connect
 * it again, it has its former peer, and the record that the hook had written before.
 */
static __always_inline bool is_to_destroy(struct sock_common *sk, const struct socket_peer *peer,
					  __s32 chosen_as)
{
	if (chosen_as == CHOSEN_WITH_OTHER_RECORD)
		return sk->skc_state == BPF_TCP_ESTABLISHED && !is_connected_to(sk, peer);
	return is_stale(peer) && is_connected_to(sk, peer);
}

static __always_inline void destroy(struct sock_common *sk, const struct socket_peer *peer,
				    __s32 *outcome)
{
	int error;

	if (!peer || !is_to_destroy(sk, peer, *outcome))
		return;
	error = bpf_sock_destroy(sk);
	*outcome = error ? error : OUTCOME_DESTROYED;
}

SEC("iter/udp") int fl_destroy_udp(struct bpf_iter__udp *ctx)
{
	struct udp_sock *sk = ctx->udp_sk;
	__s32 *outcome;

	if (!sk)
		return 0;
	outcome = chosen((struct sock_common *)sk);
	if (outcome)
		destroy((struct sock_common *)sk, bpf_sk_storage_get(&fl_sock, sk, 0, 0), outcome);
	return 0;
}

SEC("iter/tcp") int fl_destroy_tcp(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	struct socket_peer *peer;
	__s32 *outcome;

	if (!sk)
		return 0;
	outcome = chosen(sk);
	if (!outcome)
		return 0;
	peer = tcp_record(sk);
	destroy(sk, peer ? peer : bpf_sk_storage_get(&fl_sock, sk, 0, 0), outcome);
	return 0;
}
