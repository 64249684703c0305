/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packet programs that return at once, with the maps that the agent fills: what it costs a packet
 * that programs are on its way, whatever they do.
 */
#define fl_ingress    unused_ingress
#define fl_egress     unused_egress
#define fl_ingress_l3 unused_ingress_l3
#define fl_egress_l3  unused_egress_l3

#include "packet/packet.bpf.c"

#undef fl_ingress
#undef fl_egress
#undef fl_ingress_l3
#undef fl_egress_l3

#define RETURNS(name)                                                \
	SEC("tc") int name(__attribute__((unused)) struct __sk_buff *skb) \
	{                                                            \
		return LEAVE;                                        \
	}

RETURNS(fl_ingress)
RETURNS(fl_egress)
RETURNS(fl_ingress_l3)
RETURNS(fl_egress_l3)
