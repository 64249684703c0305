/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One operation on the table of connections for each PROG_TEST_RUN, as the packet is told, which is
 * a struct operation. Not shipped.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "packet/conn/client/begin.h"
#include "packet/conn/here.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum what { FIND, FIND_REPLY, BEGIN, CONFIRM, RELEASE, CLAIM, END, END_UNCHANGED };

struct operation {
	struct tuple tuple;
	struct conn_env env;
	__u32 what;
	__u32 outcome;
	struct conn_slot slot;
	__u32 half; /* of a look-up: what here.h says */
	union conn_record record;
};

#define NOT_FOUND 99

static __always_inline __u32 find(struct operation *o, enum family family)
{
	o->half = client_here(&o->tuple, o->env.secret, family);
	return find_client(&o->tuple, &o->env, &o->record, &o->slot, family) ? 0 : NOT_FOUND;
}

static __always_inline __u32 reply_of(struct operation *o, enum family family)
{
	o->half = reply_here(&o->tuple, o->env.secret, family);
	return find_reply(&o->tuple, &o->env, &o->record, &o->slot.index, family) ? 0 : NOT_FOUND;
}

/* With its middle tuple, and with its reply tuple, if the record has a port for it. The outcome of
 * the claim is in the tens.
 */
static __always_inline __u32 begin(struct operation *o, enum family family)
{
	enum conn_begin begun = begin_slot(&o->tuple, o->half, &o->slot, &o->env, family);
	enum conn_claim claimed = CLAIM_MADE;

	if (begun != BEGIN_MADE)
		return begun;
	write_record(o->slot.index, &o->record, &o->env, family);
	if (o->record.conn.life.flags.masquerade && !o->record.conn.marks.own)
		claimed = claim_side(&o->record, o->slot.index, OF_MIDDLE, &o->env, family);
	if (claimed == CLAIM_MADE && o->record.conn.reply_port)
		claimed = claim_reply(&o->record, o->slot.index, &o->env, family);
	if (claimed == CLAIM_MADE)
		publish_slot(&o->slot, family);
	else
		cancel_slot(&o->slot, &o->tuple, &o->env, family);
	return 10 * claimed;
}

/* The reply tuple of a connection that has none: the one in the operation's record. */
static __always_inline __u32 claim(struct operation *o, enum family family)
{
	__u16 port = o->record.conn.reply_port;
	enum conn_claim claimed;
	struct address reply;

	get_conn_address(&o->record, CONN_REPLY, &reply, family);
	if (find(o, family) || o->record.conn.reply_port || !lock_slot(&o->slot, family))
		return NOT_FOUND;
	put_conn_address(&o->record, CONN_REPLY, &reply, family);
	o->record.conn.reply_port = port;
	write_reply(o->slot.index, &o->record, family);
	claimed = claim_reply(&o->record, o->slot.index, &o->env, family);
	if (claimed != CLAIM_MADE) {
		o->record.conn.reply_port = 0;
		write_reply(o->slot.index, &o->record, family);
	}
	seal_record(o->slot.index, &o->record, &o->env, family);
	unlock_slot(&o->slot, family);
	return 10 * claimed;
}

static __always_inline __u32 release(struct operation *o, enum family family)
{
	if (find(o, family) || !lock_slot(&o->slot, family))
		return NOT_FOUND;
	release_slot(&o->slot, &o->env, family);
	return 0;
}

/* The operation's record and slot are of a look-up before. */
static __always_inline __u32 end(struct operation *o, enum family family)
{
	bool is_ended = o->what == END ? end_record(&o->record, &o->slot, &o->env, family)
				       : end_unchanged(&o->record, &o->slot, &o->env, family);

	return is_ended ? 0 : NOT_FOUND;
}

static __always_inline __u32 operate(struct operation *o, enum family family)
{
	switch (o->what) {
	case FIND:
		return find(o, family);
	case FIND_REPLY:
		return reply_of(o, family);
	case BEGIN:
		return begin(o, family);
	case CONFIRM:
		if (find(o, family))
			return NOT_FOUND;
		confirm_slot(&o->slot, family);
		return o->slot.word & CONN_HALF ? NOT_FOUND : 0;
	case RELEASE:
		return release(o, family);
	case CLAIM:
		return claim(o, family);
	case END:
	case END_UNCHANGED:
		return end(o, family);
	default:
		return NOT_FOUND;
	}
}

static __always_inline int run(struct xdp_md *ctx, enum family family)
{
	struct operation *o = (void *)(long)ctx->data;

	if ((void *)(o + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	o->outcome = operate(o, family);
	return XDP_PASS;
}

SEC("xdp") int conn_operate4(struct xdp_md *ctx)
{
	return run(ctx, FAMILY_IPV4);
}

SEC("xdp") int conn_operate6(struct xdp_md *ctx)
{
	return run(ctx, FAMILY_IPV6);
}
