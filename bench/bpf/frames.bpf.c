/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Clients, servers and two nodes of bench:packets, all XDP programs. `feed` makes frames, given to
 * it by a test run with live frames, to those of clients, and sends them by the client's device.
 * `route` is what XDP can do at best on a node that forwards; `refuse` drops what comes in, so that
 * nothing is left but what it takes to make frames and to receive them.
 */
#include "../packets/frames/frames.h"

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define AF_INET 2 /* <sys/socket.h> cannot be included here */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct task);
} task SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

struct frame {
	struct ethhdr eth;
	struct iphdr ip;
	union {
		struct tcphdr tcp;
		struct udphdr udp;
	};
} __attribute__((packed));

static __always_inline bool is_whole(const struct xdp_md *ctx, const struct frame *f)
{
	return (const void *)(f + 1) <= (const void *)(long)ctx->data_end &&
	       f->eth.h_proto == bpf_htons(ETH_P_IP);
}

static __always_inline int count(enum counter which)
{
	__u32 key = which;
	__u64 *value = bpf_map_lookup_elem(&counters, &key);

	if (value)
		(*value)++;
	return XDP_DROP;
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum + (sum >> 16);
}

static __always_inline __u32 mixed(__u32 value)
{
	value = (value ^ (value >> 16)) * 0x7feb352d;
	value = (value ^ (value >> 15)) * 0x846ca68b;
	return value ^ (value >> 16);
}

/* --- clients -----------------------------------------------------------------------------------
 */

/* Of a flow, or of a frame that has one to itself; ports below those that a node takes. */
static __always_inline void put_ends(struct frame *f, const struct task *t, __u64 flow)
{
	__u32 target = t->order == NEW ? mixed(flow) % t->targets : flow % t->targets;
	__be16 source = bpf_htons(1024 + (flow * 251 + (flow >> 16)) % 31744);
	__be16 port = bpf_htons(t->port + target * t->port_step);
	__be32 from = bpf_htonl(CLIENTS | (flow & 0xffff));
	__be32 to = bpf_htonl(t->address + target * t->address_step);
	__u16 sum = ~fold((__u64)t->sum + from + to + source + port);

	f->ip.saddr = from;
	f->ip.daddr = to;
	f->ip.check = ~fold((__u64)t->ip_sum + from + to);
	f->udp.source = source;
	f->udp.dest = port;
	if (f->ip.protocol == IPPROTO_TCP)
		f->tcp.check = sum;
	else
		f->udp.check = sum ? sum : 0xffff;
}

SEC("xdp") int feed(struct xdp_md *ctx)
{
	struct frame *f = (void *)(long)ctx->data;
	__u32 zero = 0;
	struct task *t = bpf_map_lookup_elem(&task, &zero);
	__u64 flow;

	if (!t || (__u8 *)f + FRAME_SIZE > (__u8 *)(long)ctx->data_end || !t->flows || !t->targets)
		return XDP_ABORTED;
	flow = t->next++;
	if (t->order == RANDOM)
		flow = mixed(flow) % t->flows;
	else if (t->order == IN_TURN)
		flow %= t->flows;
	__builtin_memcpy(f, t->frame, FRAME_SIZE);
	put_ends(f, t, flow);
	return bpf_redirect(t->ifindex, 0);
}

static __always_inline enum manner manner(void)
{
	__u32 zero = 0;
	const struct task *t = bpf_map_lookup_elem(&task, &zero);

	return t ? t->manner : SINK;
}

/* --- answers -----------------------------------------------------------------------------------
 */

/* Back to where it came from. By a redirect: a veth leaves frames of XDP_TX in its ring if there is
 * no program at the other end.
 */
static __always_inline int turn_back(struct xdp_md *ctx, struct frame *f)
{
	struct ethhdr eth = f->eth;
	__be32 address = f->ip.saddr;
	__be16 port = f->udp.source;

	__builtin_memcpy(f->eth.h_dest, eth.h_source, ETH_ALEN);
	__builtin_memcpy(f->eth.h_source, eth.h_dest, ETH_ALEN);
	f->ip.saddr = f->ip.daddr;
	f->ip.daddr = address;
	f->udp.source = f->udp.dest;
	f->udp.dest = port;
	return bpf_redirect(ctx->ingress_ifindex, 0);
}

/* As the other side sends it, with these flags: byte 13 of the header, whose offset is even. */
static __always_inline int turn_segment(struct xdp_md *ctx, struct frame *f, __u8 flags)
{
	__u8 *header = (__u8 *)&f->tcp;
	__be16 *word = (__be16 *)(header + 12);
	__be32 seq = f->tcp.seq, ack = f->tcp.ack_seq;
	__be16 before = *word;
	__u64 change;

	header[13] = flags;
	f->tcp.seq = ack;
	f->tcp.ack_seq = bpf_htonl(bpf_ntohl(seq) + 1);
	change = (__u64)(__u16)~before + *word + (__u32)~seq + f->tcp.ack_seq;
	f->tcp.check = ~fold((__u64)(__u16)~f->tcp.check + change);
	return turn_back(ctx, f);
}

#define FIN 0x01
#define SYN 0x02
#define ACK 0x10

static __always_inline int answer(struct xdp_md *ctx, struct frame *f, bool is_server)
{
	if (f->ip.protocol == IPPROTO_UDP)
		return is_server ? turn_back(ctx, f) : XDP_DROP;
	if (f->ip.protocol != IPPROTO_TCP)
		return XDP_DROP;
	if (f->tcp.syn && is_server)
		return turn_segment(ctx, f, SYN | ACK);
	if (f->tcp.syn || (f->tcp.fin && is_server))
		return turn_segment(ctx, f, FIN | ACK);
	return f->tcp.fin ? turn_segment(ctx, f, ACK) : XDP_DROP;
}

SEC("xdp") int server(struct xdp_md *ctx)
{
	struct frame *f = (void *)(long)ctx->data;

	if (!is_whole(ctx, f) || f->udp.dest != bpf_htons(SERVER_PORT))
		return XDP_PASS;
	count(AT_SERVER);
	return manner() == ANSWER ? answer(ctx, f, true) : XDP_DROP;
}

SEC("xdp") int client(struct xdp_md *ctx)
{
	struct frame *f = (void *)(long)ctx->data;

	if (!is_whole(ctx, f) || (bpf_ntohl(f->ip.daddr) & 0xffff0000) != CLIENTS)
		return XDP_PASS;
	count(AT_CLIENT);
	return manner() == ANSWER ? answer(ctx, f, false) : XDP_DROP;
}

/* --- nodes -------------------------------------------------------------------------------------
 */

static __always_inline bool is_of_client(const struct frame *f)
{
	return (bpf_ntohl(f->ip.saddr) & 0xffff0000) == CLIENTS ||
	       (bpf_ntohl(f->ip.daddr) & 0xffff0000) == CLIENTS;
}

SEC("xdp") int refuse(struct xdp_md *ctx)
{
	struct frame *f = (void *)(long)ctx->data;

	return is_whole(ctx, f) && is_of_client(f) ? count(AT_NODE) : XDP_PASS;
}

SEC("xdp") int route(struct xdp_md *ctx)
{
	struct frame *f = (void *)(long)ctx->data;
	struct bpf_fib_lookup way = {.family = AF_INET, .ifindex = ctx->ingress_ifindex};
	__u16 before;

	if (!is_whole(ctx, f) || !is_of_client(f) || f->ip.ttl <= 1)
		return XDP_PASS;
	way.l4_protocol = f->ip.protocol;
	way.sport = f->udp.source;
	way.dport = f->udp.dest;
	way.tot_len = bpf_ntohs(f->ip.tot_len);
	way.tos = f->ip.tos;
	way.ipv4_src = f->ip.saddr;
	way.ipv4_dst = f->ip.daddr;
	if (bpf_fib_lookup(ctx, &way, sizeof(way), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return XDP_PASS;
	before = *(__u16 *)&f->ip.ttl;
	f->ip.ttl--;
	f->ip.check = ~fold((__u64)(__u16)~f->ip.check + (__u16)~before + *(__u16 *)&f->ip.ttl);
	__builtin_memcpy(f->eth.h_dest, way.dmac, ETH_ALEN);
	__builtin_memcpy(f->eth.h_source, way.smac, ETH_ALEN);
	return bpf_redirect(way.ifindex, 0);
}
