/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Waits for a slot that is BUSY: another CPU writes its record, chooses its SNAT port, or ends it.
 * That takes a few microseconds. Who does not wait finds no connection, and its packet is lost.
 */
#ifndef FAIRLEAD_CONN_WAIT_H
#define FAIRLEAD_CONN_WAIT_H

#include "packet/conn/client/slot.h"

/* Some 3 us: the clock is read because that takes time, and is few instructions to verify. */
#define LOOKS  8
#define PAUSES 16

/* Of these. The other CPU may have been taken from its virtual machine: no more than some 25 us. */
#define WAITS 8

/* The word when it is no longer BUSY, or when this CPU has looked for so many times. */
static __always_inline __u32 watch_word(const __u32 *at, int looks)
{
	__u32 word = *(const volatile __u32 *)at;

#pragma clang loop unroll(disable)
	for (int i = 0; i < looks && word & CONN_BUSY; i++) {
#pragma clang loop unroll(full)
		for (int n = 0; n < PAUSES; n++)
			bpf_ktime_get_ns();
		word = *(const volatile __u32 *)at;
	}
	return word;
}

__noinline __u32 fl_watch_word(const __u32 *at)
{
	return at ? watch_word(at, LOOKS) : 0;
}

#endif
