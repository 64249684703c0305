// SPDX-License-Identifier: Apache-2.0
// Where connections end: waits until they reach the servers that they should.
#ifndef FAIRLEAD_TRAFFIC_REACH_H
#define FAIRLEAD_TRAFFIC_REACH_H

#include "sockets.h"
#include "times.h"

enum { REACH_WAIT_MS = 20 };

struct range {
  uint32_t address, mask;
};

static struct range parse_range(const char* text) {
  char address[64] = "";
  int bits = 0;
  struct in_addr parsed;
  must(sscanf(text, "%63[^/]/%d", address, &bits) == 2 && bits > 0 && bits <= 32, "range");
  must(inet_pton(AF_INET, address, &parsed) == 1, "range");
  uint32_t mask = htonl(~0U << (32 - bits));
  return (struct range){parsed.s_addr & mask, mask};
}

enum end { END_FAILED, END_ELSEWHERE, END_REACHED };

static enum end try_to_reach(struct target* target, struct range range) {
  struct sockaddr_in end = {0};
  socklen_t size = sizeof(end);
  int client, peer;
  if (!open_pair(target, REACH_WAIT_MS, &client, &peer)) {
    empty_queue(target->server);
    return END_FAILED;
  }
  must(getsockname(peer, (struct sockaddr*)&end, &size) == 0, "getsockname");
  close(peer);
  close(client);
  return (end.sin_addr.s_addr & range.mask) == range.address ? END_REACHED : END_ELSEWHERE;
}

static void reach(struct target* target, int count, const char* arguments) {
  char range_text[80] = "";
  int period_us = 0, timeout_ms = 0, in_a_row = 0;
  uint64_t tries = 0, failed = 0, first_ns = 0;
  must(sscanf(arguments, "%79s %d %d", range_text, &period_us, &timeout_ms) == 3, "reach");
  struct range range = parse_range(range_text);
  uint64_t deadline_ns = now_ns() + (uint64_t)timeout_ms * 1000000ULL;
  empty_queue(target->server);
  while (in_a_row < count && now_ns() < deadline_ns) {
    uint64_t started_ns = now_ns();
    enum end end = try_to_reach(target, range);
    tries++;
    failed += end == END_FAILED;
    if (end == END_REACHED && in_a_row == 0) first_ns = started_ns;
    in_a_row = end == END_REACHED ? in_a_row + 1 : 0;
    if (in_a_row < count) usleep((unsigned)period_us);
  }
  if (in_a_row < count)
    puts("never");
  else
    printf("%lu %lu %lu\n", first_ns, tries, failed);
}

#endif
