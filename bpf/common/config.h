/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Settings the agent writes before load (.rodata). The verifier knows their values, so a branch on
 * one costs nothing and what it rules out is never checked against the running kernel.
 * What changes while programs run is in fl_runtime (maps.h) instead.
 */
#ifndef FAIRLEAD_CONFIG_H
#define FAIRLEAD_CONFIG_H

#include <linux/types.h>

/* Cookie of the node's own network namespace; 0: unknown (SO_NETNS_COOKIE is there from 5.14). */
const volatile __u64 node_netns_cookie = 0;

/*
 * bpf_set_retval() may be called here (socket hooks have it from 6.1). 0: a refused call fails with
 * EPERM, the only error older kernels let a hook return.
 */
const volatile __u8 can_set_retval = 0;

#endif
