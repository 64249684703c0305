// SPDX-License-Identifier: Apache-2.0
// The time that things take: of this thread, and by the clock.
#ifndef FAIRLEAD_TRAFFIC_TIMES_H
#define FAIRLEAD_TRAFFIC_TIMES_H

#include <stdint.h>
#include <time.h>

enum { MAX_TIMED = 65536 };

static uint64_t times[MAX_TIMED];
static int n_times;

static uint64_t read_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static uint64_t cpu_ns(void) {
  return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
static uint64_t now_ns(void) {
  return read_clock(CLOCK_MONOTONIC);
}

static void keep_time(uint64_t started_ns) {
  if (n_times < MAX_TIMED) times[n_times++] = now_ns() - started_ns;
}

static int ascending(const void* a, const void* b) {
  uint64_t one = *(const uint64_t*)a, other = *(const uint64_t*)b;
  return (one > other) - (one < other);
}

/* Of sorted times: the smallest one that no more than a share of `1 - per_mille / 1000` exceeds. */
static uint64_t time_at(int per_mille) {
  int rank = (n_times * per_mille + 999) / 1000;
  return n_times == 0 ? 0 : times[rank > 0 ? rank - 1 : 0];
}

#endif
