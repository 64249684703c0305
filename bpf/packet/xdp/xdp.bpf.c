/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The packet layer at XDP, before the kernel makes a packet of a frame: what packet.bpf.c does at
 * ingress and at egress, on the same maps and by the same functions, in one step, and between the
 * two the kernel's tables of routes and neighbours in place of the network stack. Everything
 * else goes up to those programs as it came: they are complete.
 */
#include "packet/xdp/hook.h"

#include "packet/flow/egress.h"
#include "packet/flow/select.h"
#include "packet/flow/reply.h"
#include "packet/xdp/frame.h"
#include "packet/xdp/local.h"
#include "packet/xdp/station.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* --- whether to look at it ---------------------------------------------------------------------
 */

static __always_inline bool may_begin_at_xdp(const struct packet *p, enum family family)
{
	return is_first(p) && (may_be_frontend(&p->wire.destination, family) ||
			       may_be_node_port(p->wire.destination_port));
}

/* What the stack forwards: it refuses other sources, or handles them in other ways. */
static __always_inline bool is_routed(const struct address *a, enum family family)
{
	__u32 first;

	if (family == FAMILY_IPV6)
		return (a->byte[0] & 0xe0) == 0x20 || (a->byte[0] & 0xfe) == 0xfc;
	first = bpf_ntohl(a->word[3]) >> 24;
	return first != 0 && first != 127 && first < 224;
}

/*
 * A packet of this machine whose checksum the sender left to the device: its field has only the sum
 * of the pseudo header yet. One of 65,536 other packets looks the same, and is left, too.
 */
static __always_inline bool is_unfinished(struct xdp_md *ctx, const struct packet *p,
					  enum family family)
{
	__u32 header = family == FAMILY_IPV4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	const union transport *t = (const void *)(long)ctx->data + sizeof(struct ethhdr) + header;
	__u16 sum = fold(pseudo_sum(&p->wire, p->length - header, p->wire.protocol, family));

	if (!p->has_checksum)
		return false;
	if (p->wire.protocol == PROTOCOL_TCP)
		return ends_before(ctx, &t->tcp + 1) || t->tcp.check == sum;
	return ends_before(ctx, &t->udp + 1) || t->udp.check == sum;
}

static __always_inline bool is_ours(struct xdp_md *ctx, struct packet *p, enum family family)
{
	if (p->hops <= 1 || !is_for_device(ctx, p) || !is_routed(&p->wire.source, family) ||
	    !is_intact(ctx, family))
		return false;
	if (!is_unfinished(ctx, p, family))
		return true;
	count_reason(REASON_XDP_UNFINISHED);
	return false;
}

/* Global, so that its sums take no stack beside what follows. Those of IPv4 take none. */
__noinline int fl_is_ours6(struct xdp_md *ctx)
{
	struct packet *p = this_packet();

	return p && is_ours(ctx, p, FAMILY_IPV6);
}

/* --- first packets -----------------------------------------------------------------------------
 */

/* While records are carried into another table, or rules serve what begins, see choose.h. */
static __always_inline bool may_be_held(void)
{
	const struct packet_settings *s = packet_settings();
	const struct table_phase *phase = table_phase();

	return !s || s->hold_until || s->flags.leave_new || !phase || phase->passes_on;
}

/* Only what gets a backend: all that is refused, dropped or answered is left. */
static __always_inline int on_first(struct xdp_md *ctx, enum family family)
{
	struct packet *p = this_packet();

	if (!p || !may_begin_at_xdp(p, family) || !frontend_of_destination(p, family) ||
	    may_be_held())
		return LEFT;
	p->device = p->came_by;
	set_client(ctx, p, family);
	if (select(p, family) != VERDICT_TRANSLATE || p->choice.rule.flags.direct_return)
		return LEFT;
	if (is_left(ctx, p, &p->choice.address, p->choice.port, false, true, family)) {
		family == FAMILY_IPV4 ? fl_note_local4() : fl_note_local6();
		return LEFT;
	}
	family == FAMILY_IPV4 ? fl_note_choice4() : fl_note_choice6();
	if (p->former_backend)
		end_other(family);
	return BEGINS_HERE;
}

__noinline int fl_first4(struct xdp_md *ctx)
{
	return on_first(ctx, FAMILY_IPV4);
}

__noinline int fl_first6(struct xdp_md *ctx)
{
	return on_first(ctx, FAMILY_IPV6);
}

/* --- both hooks of tc --------------------------------------------------------------------------
 */

/*
 * What egress does with a request that ingress has translated. The record is at hand, which egress
 * at tc has to look for.
 */
static __always_inline int masquerade_request(struct xdp_md *ctx, struct packet *p,
					      enum family family)
{
	if (likely(p->conn.conn.reply_port))
		return masquerade(ctx, p, family);
	reverse(&p->wire, &p->back);
	return begin_snat(ctx, p, family);
}

static __always_inline bool may_be_reply(const struct packet *p, enum family family)
{
	return is_marked(p, MARKS_INGRESS, &p->wire.destination, SNAT_PORTS, family);
}

/* Of struct packet alone. LEAVE: it has the packet as it goes on. */
static __always_inline int translate(struct xdp_md *ctx, struct packet *p, enum family family)
{
	const struct address *to = &p->wire.destination;
	bool is_request =
		is_marked(p, MARKS_INGRESS, to, port_mark(p, p->wire.destination_port), family);
	bool is_reply = !is_request && may_be_reply(p, family);
	int action = UNDECIDED;

	if (!is_request && !is_reply && !may_begin_at_xdp(p, family))
		return LEFT;
	set_now(p);
	if (!is_reply && is_known_local(p, family))
		return LEFT;
	set_frame_hash(p, family);
	if (is_known_left(p) ||
	    (family == FAMILY_IPV4 ? !is_ours(ctx, p, family) : !fl_is_ours6(ctx)))
		return LEFT;
	if (is_request)
		action = request(ctx, family);
	if (is_request && (action == UNDECIDED || action == OVER))
		is_reply = may_be_reply(p, family);
	if (is_reply) {
		int found = reply(ctx, family);

		if (found != UNDECIDED)
			return found == LEAVE ? to_client(ctx, p, family) : found;
	}
	if (action == UNDECIDED || action == OVER)
		action = family == FAMILY_IPV4 ? fl_first4(ctx) : fl_first6(ctx);
	/* Beside fl_first: nested, both would need more stack than there is. */
	if (action == BEGINS_HERE)
		action = family == FAMILY_IPV4 ? fl_begin4(ctx) : fl_begin6(ctx);
	return action == LEAVE && p->conn.conn.life.flags.masquerade
		       ? masquerade_request(ctx, p, family)
		       : action;
}

/* --- the frame ---------------------------------------------------------------------------------
 */

/*
 * By the device that it came by, too: its driver has been tried with redirected frames. XDP_TX is
 * another way through a driver, and that of veth then leaves frames in its ring until another one
 * follows, unless the other end has a program of its own.
 */
static __always_inline int send(struct xdp_md *ctx, const struct packet *p)
{
	if (unlikely(p->tag_out.type) && !fl_add_tag(ctx)) {
		count_reason(REASON_NOT_REWRITTEN);
		return XDP_DROP;
	}
	count_reason(REASON_XDP_SENT);
	return bpf_redirect(p->route.ifindex, 0);
}

/* Global for the same reason. */
__noinline int fl_write_frame6(struct xdp_md *ctx)
{
	struct packet *p = this_packet();

	return p && write_frame6(ctx, p);
}

static __always_inline int forward(struct xdp_md *ctx, struct packet *p, enum family family)
{
	int action = translate(ctx, p, family);

	if (action == LEFT)
		return XDP_PASS;
	if (action != LEAVE)
		return XDP_DROP;
	if ((family == FAMILY_IPV4 ? write_frame4(ctx, p) : fl_write_frame6(ctx)) &&
	    write_ethernet(ctx, p))
		return send(ctx, p);
	count_reason(REASON_NOT_REWRITTEN);
	return XDP_DROP;
}

/* The element to work in, as in packet.bpf.c. */
static __always_inline struct packet *begin(const struct xdp_md *ctx)
{
	const struct packet_settings *s = packet_settings();
	struct packet *p = this_packet();

	if (!p || !s || !s->secret)
		return NULL;
	p->env.secret = s->secret;
	p->has_mac = true;
	p->is_plain = false;
	p->in_geneve = false;
	p->keeps_backend = false;
	p->of_stale = false;
	p->former_backend = 0;
	p->answers_by = 0;
	p->came_by = ctx->ingress_ifindex;
	p->tag_in.type = 0;
	p->tag_out.type = 0;
	return p;
}

__noinline int fl_forward6(struct xdp_md *ctx)
{
	struct packet *p = this_packet();

	return p && read_frame6(ctx, p) ? forward(ctx, p, FAMILY_IPV6) : XDP_PASS;
}

/* Without a tag. */
static __always_inline int on_frame(struct xdp_md *ctx, struct packet *p)
{
	const struct ethhdr *eth = (const void *)(long)ctx->data;

	if (ends_before(ctx, eth + 1))
		return XDP_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return read_frame4(ctx, p) ? forward(ctx, p, FAMILY_IPV4) : XDP_PASS;
	return with_ipv6 && eth->h_proto == bpf_htons(ETH_P_IPV6) ? fl_forward6(ctx) : XDP_PASS;
}

/* For devices with Ethernet headers. */
SEC("xdp") int fl_xdp(struct xdp_md *ctx)
{
	const struct ethhdr *eth = (const void *)(long)ctx->data;
	struct packet *p = begin(ctx);
	int action;

	if (!p || ends_before(ctx, eth + 1) ||
	    (unlikely(is_tag(eth->h_proto)) && !fl_take_tag(ctx)))
		return XDP_PASS;
	action = on_frame(ctx, p);
	if (unlikely(p->tag_in.type) && action == XDP_PASS && !fl_restore_tag(ctx))
		return XDP_DROP;
	return action;
}
