/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Runs select.h without sockets, by PROG_TEST_RUN, which socket programs do not support. The packet
 * is a struct drive: the request is read from it and the choice written to it. Not shipped.
 */
#include <stddef.h>

#include "common/select.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct drive {
	struct request request;
	struct choice choice;
};

/*
 * The writer raises epoch_hi before it publishes an epoch, and epoch_lo after it did. A pick made
 * between a read of lo and a read of hi may be of any epoch from lo to hi and of no other.
 */
struct watch {
	__u64 epoch_lo;
	__u64 epoch_hi;
	__u64 picks;
	__u64 violations;
	__u64 failures; /* picks that found no backend: also violations */
	/* The first violation. */
	__u64 seen_lo;
	__u64 seen_hi;
	struct choice seen;
};

/* How often each backend was picked. Written by fl_drive_count. Key: backend id. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} fl_picked SEC(".maps");

/* Which backends were picked, one after the other, after how many there are. Written by
 * fl_drive_order. */
#define MOST_IN_ORDER 4095
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 + MOST_IN_ORDER);
	__type(key, __u32);
	__type(value, __u64);
} fl_order SEC(".maps");

/* One element. Written by the test's writer (epochs) and by fl_drive_watch (the rest). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct watch);
} fl_watch SEC(".maps");

static __always_inline struct drive *drive_of(const struct xdp_md *ctx)
{
	struct drive *drive = (void *)(long)ctx->data;

	return (void *)(drive + 1) > (void *)(long)ctx->data_end ? NULL : drive;
}

/* As the hooks of sockets do. */
static __always_inline void select_and_note(const struct request *r, enum family family,
					    struct choice *c)
{
	select_backend(r, family, c);
	if (c->verdict == VERDICT_TRANSLATE)
		note_choice(r, family, c);
}

static __always_inline void select_any(const struct request *r, struct choice *c)
{
	if (is_mapped(&r->address))
		select_and_note(r, FAMILY_IPV4, c);
	else
		select_and_note(r, FAMILY_IPV6, c);
}

SEC("xdp") int fl_drive_select(struct xdp_md *ctx)
{
	struct drive *drive = drive_of(ctx);
	struct choice choice = {};
	struct request request;

	if (!drive)
		return XDP_ABORTED;
	request = drive->request;
	select_any(&request, &choice);
	drive->choice = choice;
	return XDP_PASS;
}

/* The position of a packet whose source is the request's address, added to POSITION_BASE. */
#define POSITION_BASE 16
SEC("xdp") int fl_drive_pos(struct xdp_md *ctx)
{
	struct drive *drive = drive_of(ctx);
	struct address source;

	if (!drive)
		return XDP_ABORTED;
	source = drive->request.address;
	return POSITION_BASE + position_of_source(&source);
}

SEC("xdp") int fl_drive_count(struct xdp_md *ctx)
{
	struct drive *drive = drive_of(ctx);
	struct choice choice = {};
	struct request request;
	__u64 *picked;

	if (!drive)
		return XDP_ABORTED;
	request = drive->request;
	select_and_note(&request, FAMILY_IPV4, &choice);
	picked = bpf_map_lookup_elem(&fl_picked, &choice.backend_id);
	if (picked)
		*picked += 1;
	return XDP_PASS;
}

/* A repeated run stays on one CPU. */
SEC("xdp") int fl_drive_order(struct xdp_md *ctx)
{
	struct drive *drive = drive_of(ctx);
	struct choice choice = {};
	struct request request;
	__u32 zero = 0, at;
	__u64 *count, *picked;

	count = bpf_map_lookup_elem(&fl_order, &zero);
	if (!drive || !count)
		return XDP_ABORTED;
	request = drive->request;
	select_any(&request, &choice);
	*count += 1;
	at = *count;
	picked = bpf_map_lookup_elem(&fl_order, &at);
	if (picked)
		*picked = choice.backend_id;
	return XDP_PASS;
}

/* A backend's address is its epoch, its port its slot; both are written anew for each epoch. */
static __always_inline bool is_of_one_epoch(const struct choice *c, __u64 lo, __u64 hi)
{
	__u32 epoch = bpf_ntohl(c->address.word[3]);

	return c->verdict == VERDICT_TRANSLATE && epoch >= lo && epoch <= hi &&
	       c->port < c->rule.members && c->generation == (__u16)epoch &&
	       c->rule.members == 1000 - epoch % 8;
}

static __always_inline void watch_one(struct watch *watch, const struct request *request)
{
	struct choice choice = {};
	__u64 lo, hi;

	lo = *(volatile __u64 *)&watch->epoch_lo;
	select_backend(request, FAMILY_IPV4, &choice);
	hi = *(volatile __u64 *)&watch->epoch_hi;
	watch->picks += 1;
	if (is_of_one_epoch(&choice, lo, hi))
		return;
	if (choice.verdict != VERDICT_TRANSLATE)
		watch->failures += 1;
	if (!watch->violations) {
		watch->seen_lo = lo;
		watch->seen_hi = hi;
		watch->seen = choice;
	}
	watch->violations += 1;
}

/* Not on the stack, which selection needs. All runs at a time have the same. */
static struct request watched;

SEC("xdp") int fl_drive_watch(struct xdp_md *ctx)
{
	struct drive *drive = drive_of(ctx);
	struct watch *watch;
	__u32 zero = 0;

	watch = bpf_map_lookup_elem(&fl_watch, &zero);
	if (!drive || !watch)
		return XDP_ABORTED;
	watched = drive->request;
	watch_one(watch, &watched);
	return XDP_PASS;
}
