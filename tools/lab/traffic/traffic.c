// SPDX-License-Identifier: Apache-2.0
// Traffic of one client to one of several servers, all in this one thread: what the client sends is
// in the server's socket when the call returns, because the kernel forwards it in the sender's
// context. Nobody waits for anybody, so the thread's CPU time is the cost of the whole way,
// whatever else the machine does.
//
//   traffic CPU CLIENT_NETNS SERVER_NETNS:PORT...    in the order of the INDEX of lines
//
//   try     INDEX ADDRESS PORT      one exchange over UDP and one over TCP: `yes` or `no`
//   udp     INDEX ADDRESS PORT N    N rounds of datagrams of 64 flows, each answered
//   tcp     INDEX ADDRESS PORT N    N times connect, request, answer, close
//   request INDEX ADDRESS PORT N    N times request and answer over one connection
//   bulk    INDEX ADDRESS PORT N    N MiB over one connection
//
// Answers of the last four: `UNITS CPU_NS LOST RESENT P50 P99 P999`: datagrams both ways,
// connections, requests or bytes; the CPU time of this thread; what did not arrive; connections for
// which the client had to send a packet again; and, of connections and requests, percentiles of the
// time that each took, in ns.
//
//   reach   INDEX ADDRESS PORT N RANGE PERIOD_US TIMEOUT_MS
//
// connects until N connections in a row end at an address of the server in RANGE (10.1.64.0/18).
// Answers `REACHED_NS TRIES FAILED`, the time (CLOCK_MONOTONIC) at which the first of them began,
// or `never`.
#define _GNU_SOURCE
#include "reach.h"
#include "sockets.h"
#include "times.h"

#include <netinet/tcp.h>
#include <poll.h>

enum { BATCH = 16, PAYLOAD = 64, REQUEST = 128, ANSWER = 1024, CHUNK = 256 * 1024, WARM_UP = 4 };

struct figures {
  uint64_t units, cpu_ns, lost, resent;
};

static uint64_t n_resent;
static char buffer[CHUNK];
static char payloads[BATCH][PAYLOAD];
static struct sockaddr_in peers[BATCH];
static struct iovec vectors[BATCH];
static struct mmsghdr messages[BATCH];

/* --- UDP --- */

static void point_messages(bool has_peers) {
  for (int i = 0; i < BATCH; i++) {
    vectors[i] = (struct iovec){payloads[i], PAYLOAD};
    messages[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i],
                                          .msg_iovlen = 1,
                                          .msg_name = has_peers ? &peers[i] : NULL,
                                          .msg_namelen = has_peers ? sizeof(peers[i]) : 0};
  }
}

/* Waits only if nothing is there: a late datagram is awaited, a lost one costs its time limit. */
static int receive(int fd, bool has_peers) {
  point_messages(has_peers);
  int count = recvmmsg(fd, messages, BATCH, MSG_DONTWAIT, NULL);
  if (count <= 0) count = recvmmsg(fd, messages, BATCH, MSG_WAITFORONE, NULL);
  return count > 0 ? count : 0;
}

static int echo(struct server* server, int expected) {
  int count = 0, got;
  while (count < expected && (got = receive(server->udp, true)) > 0) {
    count += got;
    must(sendmmsg(server->udp, messages, (unsigned)got, 0) == got || errno == ECONNREFUSED,
         "answer");
  }
  return count;
}

/* Datagrams that arrived, both ways. An ICMP error of an earlier one is no reason to give up. */
static int udp_round(struct target* target, int batch) {
  int arrived = 0, answers = 0;
  for (int i = 0; i < FLOWS; i++) {
    point_messages(false);
    if (sendmmsg(target->flows[i], messages, (unsigned)batch, 0) < 0)
      must(errno == ECONNREFUSED || errno == EDESTADDRREQ || errno == EPERM, "send");
  }
  arrived = echo(target->server, FLOWS * batch);
  for (int i = 0; i < FLOWS; i++)
    for (int left = batch, got; left > 0 && (got = receive(target->flows[i], false)) > 0;
         left -= got)
      answers += got;
  return arrived + answers;
}

static struct figures udp(struct target* target, int rounds) {
  struct figures figures = {0};
  renew_flows(target);
  for (int i = 0; i < WARM_UP; i++) udp_round(target, 1);
  uint64_t before = cpu_ns();
  for (int i = 0; i < rounds; i++) figures.units += (uint64_t)udp_round(target, BATCH);
  figures.cpu_ns = cpu_ns() - before;
  figures.lost = (uint64_t)rounds * 2 * FLOWS * BATCH - figures.units;
  return figures;
}

/* --- TCP --- */

static bool has_resent(int client) {
  struct tcp_info info;
  socklen_t size = sizeof(info);
  return getsockopt(client, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         info.tcpi_total_retrans > 0;
}

/* The server closes first, so that the client's ports are free again at once. */
static bool converse(int client, int peer) {
  bool is_answered = send(client, buffer, REQUEST, 0) == REQUEST &&
                     recv(peer, buffer, REQUEST, 0) == REQUEST &&
                     send(peer, buffer, ANSWER, 0) == ANSWER;
  close(peer);
  is_answered = is_answered && recv(client, buffer, ANSWER, MSG_WAITALL) == ANSWER &&
                recv(client, buffer, 1, 0) == 0;
  n_resent += has_resent(client);
  close(client);
  return is_answered;
}

static bool connection(struct target* target, int wait_ms) {
  int client, peer;
  bool is_answered = open_pair(target, wait_ms, &client, &peer) && converse(client, peer);
  if (!is_answered) empty_queue(target->server);
  return is_answered;
}

static struct figures tcp(struct target* target, int count) {
  struct figures figures = {0};
  uint64_t before = cpu_ns();
  n_resent = 0;
  for (int i = 0; i < count; i++) {
    uint64_t started_ns = now_ns();
    bool is_answered = connection(target, 2000);
    if (is_answered) keep_time(started_ns);
    figures.units += is_answered;
  }
  figures.cpu_ns = cpu_ns() - before;
  figures.lost = (uint64_t)count - figures.units;
  figures.resent = n_resent;
  return figures;
}

static bool exchange(int client, int peer) {
  return send(client, buffer, REQUEST, 0) == REQUEST &&
         recv(peer, buffer, REQUEST, MSG_WAITALL) == REQUEST &&
         send(peer, buffer, ANSWER, 0) == ANSWER &&
         recv(client, buffer, ANSWER, MSG_WAITALL) == ANSWER;
}

static struct figures request(struct target* target, int count) {
  struct figures figures = {.lost = (uint64_t)count};
  int client, peer;
  empty_queue(target->server);
  if (!open_pair(target, 1000, &client, &peer)) return figures;
  set(client, IPPROTO_TCP, TCP_NODELAY, 1);
  set(peer, IPPROTO_TCP, TCP_NODELAY, 1);
  uint64_t before = cpu_ns();
  while (figures.units < (uint64_t)count) {
    uint64_t started_ns = now_ns();
    if (!exchange(client, peer)) break;
    keep_time(started_ns);
    figures.units++;
  }
  figures.cpu_ns = cpu_ns() - before;
  figures.lost -= figures.units;
  close(peer);
  close(client);
  return figures;
}

static uint64_t drain(int peer) {
  uint64_t bytes = 0;
  ssize_t got;
  while ((got = recv(peer, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0) bytes += (uint64_t)got;
  return bytes;
}

static struct figures bulk(struct target* target, int mebibytes) {
  const uint64_t goal = (uint64_t)mebibytes << 20;
  struct figures figures = {.lost = goal};
  int client, peer;
  empty_queue(target->server);
  if (!open_pair(target, 1000, &client, &peer)) return figures;
  set(client, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER);
  uint64_t before = cpu_ns();
  while (figures.units < goal) {
    send(client, buffer, sizeof(buffer), MSG_DONTWAIT);
    uint64_t bytes = drain(peer);
    figures.units += bytes;
    /* What is under way needs a timer: sleeping takes no CPU time, asking again would. */
    struct pollfd arrival = {.fd = peer, .events = POLLIN};
    if (bytes == 0 && poll(&arrival, 1, 500) == 0) break;
  }
  figures.cpu_ns = cpu_ns() - before;
  figures.lost = figures.units < goal ? goal - figures.units : 0;
  close(client);
  close(peer);
  return figures;
}

/* --- lines --- */

/* What an earlier try left behind would be taken for the answer of this one. */
static void forget(struct target* target) {
  empty_queue(target->server);
  while (recv(target->server->udp, buffer, sizeof(buffer), MSG_DONTWAIT) >= 0) continue;
  renew_flows(target);
}

static bool is_reached(struct target* target) {
  forget(target);
  return connection(target, 100) && udp_round(target, 1) == 2 * FLOWS;
}

static void obey(const char* line) {
  char what[16] = "", server[16] = "", address[64] = "";
  int port = 0, count = 0, read = 0;
  must(sscanf(line, "%15s %15s %63s %d %d%n", what, server, address, &port, &count, &read) >= 4,
       "line");
  struct target* target = open_target(server, address, port);
  if (strcmp(what, "try") == 0) {
    puts(is_reached(target) ? "yes" : "no");
    return;
  }
  if (strcmp(what, "reach") == 0) {
    reach(target, count, line + read);
    return;
  }
  n_times = 0;
  struct figures figures = strcmp(what, "udp") == 0       ? udp(target, count)
                           : strcmp(what, "tcp") == 0     ? tcp(target, count)
                           : strcmp(what, "request") == 0 ? request(target, count)
                                                          : bulk(target, count);
  qsort(times, (size_t)n_times, sizeof(times[0]), ascending);
  printf("%lu %lu %lu %lu %lu %lu %lu\n", figures.units, figures.cpu_ns, figures.lost,
         figures.resent, time_at(500), time_at(990), time_at(999));
}

int main(int argc, char** argv) {
  cpu_set_t cpus;
  char line[256];
  must(argc >= 4 && argc - 3 <= MAX_SERVERS, "arguments");
  CPU_ZERO(&cpus);
  CPU_SET(atoi(argv[1]), &cpus);
  must(sched_setaffinity(0, sizeof(cpus), &cpus) == 0, "sched_setaffinity");
  for (int i = 3; i < argc; i++) open_server(&servers[i - 3], argv[i]);
  enter(argv[2]);
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  while (fgets(line, sizeof(line), stdin)) obey(line);
  return 0;
}
