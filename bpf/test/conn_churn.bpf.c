/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Begins, finds, confirms, renews and ends a few connections in a small table, on several CPUs at
 * once, and counts what must never be. Not shipped.
 */
#include "test/conn/act.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define REPEAT 256

static __always_inline int churn_once(enum family family)
{
	__u32 zero = 0, before;
	struct work *w = bpf_map_lookup_elem(&works, &zero);

	if (!w)
		return 1;
	w->env.secret = SECRET;
	w->env.now = bpf_ktime_get_ns() >> TICK_SHIFT;
	w->env.udp_new = 2;
	w->id = bpf_get_prandom_u32() % keys;
	make_tuple(w->id, &w->tuple, family);
	before = sure_of(w->id);
	if (find_client(&w->tuple, &w->env, &w->copy, &w->slot, family)) {
		use(w, family);
		return 0;
	}
	check_missing(w, before, family);
	begin(w, family);
	return 0;
}

static long churn_once4(__u32 round, void *context)
{
	(void)round, (void)context;
	return churn_once(FAMILY_IPV4);
}

static long churn_once6(__u32 round, void *context)
{
	(void)round, (void)context;
	return churn_once(FAMILY_IPV6);
}

SEC("tc") int churn4(struct __sk_buff *skb)
{
	(void)skb;
	bpf_loop(REPEAT, churn_once4, NULL, 0);
	return 0;
}

SEC("tc") int churn6(struct __sk_buff *skb)
{
	(void)skb;
	bpf_loop(REPEAT, churn_once6, NULL, 0);
	return 0;
}
