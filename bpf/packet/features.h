/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the agent loads a program without, because no Service needs it. A constant is known to the
 * verifier: from Linux 6.8 on it neither walks the functions behind a door that is shut nor has
 * them compiled. src/engines/bpf/features.ts decides. A door is where packets come in, not
 * each place where they go.
 */
#ifndef FAIRLEAD_FEATURES_H
#define FAIRLEAD_FEATURES_H

#include <stdbool.h>

/* Packets of IPv6. */
const volatile bool with_ipv6 = true;

/* Requests to other nodes in Geneve, and to real servers in IPIP. Needs IPv6, which may carry it.
 */
const volatile bool with_direct_return = true;

/* Tail calls beside calls of functions, see conn/pass_on.h. Before Linux 6.0 no JIT of arm64 can.
 */
const volatile bool with_tail_calls = true;

#endif
