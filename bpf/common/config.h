/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Settings that the agent writes before load (.rodata). The verifier knows their values, so a
 * branch on one costs nothing, and the code that it excludes may use helpers that the running
 * kernel lacks. Settings that change while programs run are in fl_runtime (maps.h).
 */
#ifndef FAIRLEAD_CONFIG_H
#define FAIRLEAD_CONFIG_H

#include <linux/types.h>

/* Cookie of the node's own network namespace; 0: unknown (SO_NETNS_COOKIE exists from 5.14). */
const volatile __u64 node_netns_cookie = 0;

/*
 * 1: bpf_set_retval() can be called (socket hooks have it from 6.1). 0: a refused call fails with
 * EPERM, the only error that a hook can return on older kernels.
 */
const volatile __u8 can_set_retval = 0;

#endif
