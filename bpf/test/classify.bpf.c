/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A minimal object of a second layer: it shares the pinned maps of the socket programs. Not
 * shipped.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "common/maps.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tc") int fl_classify(struct __sk_buff *skb)
{
	struct runtime_flags *flags = runtime_flags();

	skb->mark = flags ? flags->node_ports : 0;
	return 0;
}
