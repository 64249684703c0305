/* SPDX-License-Identifier: Apache-2.0 */
// What the parts of the guest program share. It is process 1 of a virtual
// machine whose file system holds nothing but itself and the two layers; it
// says one line per check on its console.
#ifndef FAIRLEAD_TEST_VM_GUEST_H_
#define FAIRLEAD_TEST_VM_GUEST_H_

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stdint.h>

#define OBJECT_PATH "/sock.bpf.o"
#define CGROUP_ROOT "/cgroup"

// Settings of one load (bpf/common/config.h).
struct settings {
  uint64_t cookie;
  bool can_set_retval;
};

// What differs between kernels: words of the kernel's command line.
struct expectation {
  bool has_cookie;      // `cookie`: SO_NETNS_COOKIE, from 5.14
  bool has_retval;      // `retval`: bpf_set_retval() in every socket hook
  bool has_mptcp;       // `mptcp`: bpf_skc_to_mptcp_sock(), from 5.19
  bool has_destroy;     // `destroy`: bpf_sock_destroy(), from 6.5
  bool has_tcx;         // `tcx`: from 6.6
};

// Ports of the servers: TCP ones for a Service with three backends, UDP ones
// for two Services.
enum { TCP_PORT = 8081, TCP_SERVERS = 3, UDP_PORT = 5353, UDP_SERVERS = 2, NODE_PORT = 30080 };

// --- guest.c: `ok NAME`, or `not ok NAME: REASON` with the text and errno of
// the failure.

void check(bool is_ok, const char* format, ...) __attribute__((format(printf, 2, 3)));

// --- load.c

// Opens and loads; NULL after errno was set. With `count_as`, says what the
// verifier walked. False with errno if the object has no such setting.
bool set_variable(struct bpf_object* object, const char* name, const void* value, size_t size);
bool apply_settings(struct bpf_object* object, const struct settings* settings);
struct bpf_object* load_object(const struct settings* settings, const char* count_as);
// Every setting, with all capabilities and with as few as suffice.
void check_loads(const struct expectation* expected);
// The kernel's number of this network namespace; 0 before 5.14.
uint64_t own_cookie(void);

// --- tables.c: Services on ClusterIPs N as 10.96.0.N and fd00::N, backends on
// loopback.

void fill_tables(struct bpf_object* object);
// The first UDP Service's backend of each family serves, or is gone.
void set_udp_backends(struct bpf_object* object, bool is_serving);
void skip_cgroup(struct bpf_object* object, uint64_t id);
// Connections counted but not closed, over all backends; negative if that is
// what was counted.
int64_t open_connections(struct bpf_object* object);
uint64_t count_of_reason(struct bpf_object* object, uint32_t reason);

// --- stale.c: while the hooks are attached.

void check_stale(struct bpf_object* hooks, const struct expectation* expected);

// --- packet.c: the packet layer, without devices.

void check_packets(void);

// --- devices.c

void check_devices(const struct expectation* expected);

// --- sockets.c

void start_servers(void);
void check_sockets(const struct expectation* expected);
// True if a Service answers; false with errno.
bool is_reachable(void);

#endif  // FAIRLEAD_TEST_VM_GUEST_H_
