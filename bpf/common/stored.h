/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The record that a socket itself carries: a map of the sockets, which packets of such a socket
 * lead to. */
#ifndef FAIRLEAD_STORED_H
#define FAIRLEAD_STORED_H

#include "socket/types.h"

#include <bpf/bpf_helpers.h>

/*
 * What a connected UDP socket was translated to, and a TCP socket that does not fit into
 * fl_tcp_sock or that is closed without a hook. Written and read by the socket hooks, read by the
 * packet programs; freed with the socket, so there is no capacity and no eviction.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct socket_peer);
} fl_sock SEC(".maps");

#endif
