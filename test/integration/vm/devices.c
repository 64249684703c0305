/* SPDX-License-Identifier: Apache-2.0 */
// How the agent tells whether this kernel has tcx (native/program/tc_query.cc):
// by the errors of a query with all its arguments.
#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest.h"

enum { TCX_INGRESS = 46, LOOPBACK = 1, NO_DEVICE = 9999, MOST_PROGRAMS = 64 };

// BPF_PROG_QUERY with link ids, which older headers lack.
struct query {
  uint32_t ifindex, attach_type, query_flags, attach_flags;
  uint64_t program_ids;
  uint32_t count, padding;
  uint64_t program_flags, link_ids, link_flags, revision;
};

// Errno, or 0.
static int query_tcx(uint32_t ifindex, uint32_t* count) {
  uint32_t programs[MOST_PROGRAMS], links[MOST_PROGRAMS];
  struct query query = {.ifindex = ifindex, .attach_type = TCX_INGRESS, .count = MOST_PROGRAMS};
  query.program_ids = (uint64_t)(uintptr_t)programs;
  query.link_ids = (uint64_t)(uintptr_t)links;
  errno = 0;
  int status = (int)syscall(SYS_bpf, BPF_PROG_QUERY, &query, sizeof(query));
  *count = query.count;
  return status == 0 ? 0 : errno;
}

void check_devices(const struct expectation* expected) {
  uint32_t count = 0;
  int error = query_tcx(LOOPBACK, &count);
  if (expected->has_tcx) {
    check(error == 0 && count == 0, "a tcx query of a device lists no programs");
    check(query_tcx(NO_DEVICE, &count) == ENODEV, "a tcx query of no device is ENODEV");
  } else {
    check(error == EINVAL || error == E2BIG, "a tcx query is refused as unknown");
  }
}
