// SPDX-License-Identifier: Apache-2.0
/*
 * Traffic of one client to one of several servers, all in this one thread: what the client sends is in the server's
 * socket when the call returns, because the kernel forwards it in the sender's context. Nobody waits for anybody, so
 * the thread's CPU time is the cost of the whole way, whatever else the machine does.
 *
 *   traffic CPU CLIENT_NETNS SERVER_NETNS:PORT...    in the order of the INDEX of lines
 *
 *   try   INDEX ADDRESS PORT       does one exchange over UDP and one over TCP get through?  `yes` or `no`
 *   udp   INDEX ADDRESS PORT N     N rounds of datagrams of 64 flows, each answered
 *   tcp   INDEX ADDRESS PORT N     N times connect, request, answer, close
 *   bulk  INDEX ADDRESS PORT N     N MiB over one connection
 *
 * Answers of the last three: `UNITS CPU_NS LOST RESENT`: datagrams both ways, connections or bytes; the CPU time of
 * this thread; what did not arrive; connections for which the client had to send a packet again.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { FLOWS = 64, BATCH = 16, PAYLOAD = 64, MAX_SERVERS = 4, MAX_TARGETS = 16 };
enum { REQUEST = 128, ANSWER = 1024, CHUNK = 256 * 1024, BUFFER = 4 * 1024 * 1024 };
enum { WARM_UP = 4 };

struct server {
  int udp, tcp;
};

struct target {
  struct server *server;
  struct sockaddr_in address;
  int flows[FLOWS];
};

struct figures {
  uint64_t units, cpu_ns, lost, resent;
};

static struct server servers[MAX_SERVERS];
static struct target targets[MAX_TARGETS];
static int n_targets;
static uint64_t n_resent;
static char buffer[CHUNK];
static char payloads[BATCH][PAYLOAD];
static struct sockaddr_in peers[BATCH];
static struct iovec vectors[BATCH];
static struct mmsghdr messages[BATCH];

static void must(bool holds, const char *what) {
  if (holds) return;
  perror(what);
  exit(1);
}

static void set(int fd, int level, int option, int value) {
  must(setsockopt(fd, level, option, &value, sizeof(value)) == 0, "setsockopt");
}

static void limit_wait(int fd, int milliseconds) {
  struct timeval limit = {milliseconds / 1000, milliseconds % 1000 * 1000};
  must(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0, "SO_RCVTIMEO");
  must(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0, "SO_SNDTIMEO");
}

static void enter(const char *name) {
  char path[256];
  snprintf(path, sizeof(path), "/run/netns/%s", name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  must(fd >= 0 && setns(fd, CLONE_NEWNET) == 0, path);
  close(fd);
}

static int bound(int type, int port) {
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int fd = socket(AF_INET, type, 0);
  must(fd >= 0, "socket");
  set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  set(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER);
  set(fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER);
  limit_wait(fd, 200);
  must(bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0, "bind");
  return fd;
}

static void open_server(struct server *server, const char *where) {
  char netns[64] = "";
  int port = 0;
  must(sscanf(where, "%63[^:]:%d", netns, &port) == 2, where);
  enter(netns);
  server->udp = bound(SOCK_DGRAM, port);
  server->tcp = bound(SOCK_STREAM, port);
  must(listen(server->tcp, 128) == 0, "listen");
}

/* --- time ---------------------------------------------------------------------------------------------------- */

static uint64_t cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

/* --- UDP ----------------------------------------------------------------------------------------------------- */

static struct target *open_target(const char *server, const char *address, int port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  must(inet_pton(AF_INET, address, &to.sin_addr) == 1, "address");
  for (int i = 0; i < n_targets; i++)
    if (memcmp(&targets[i].address, &to, sizeof(to)) == 0) return &targets[i];
  must(n_targets < MAX_TARGETS, "targets");
  struct target *target = &targets[n_targets++];
  target->server = &servers[atoi(server)];
  target->address = to;
  for (int i = 0; i < FLOWS; i++) {
    int fd = target->flows[i] = socket(AF_INET, SOCK_DGRAM, 0);
    must(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0, "connect UDP");
    limit_wait(fd, 50);
  }
  return target;
}

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

static int echo(struct server *server, int expected) {
  int count = 0, got;
  while (count < expected && (got = receive(server->udp, true)) > 0) {
    count += got;
    must(sendmmsg(server->udp, messages, (unsigned)got, 0) == got || errno == ECONNREFUSED, "answer");
  }
  return count;
}

/* Datagrams that arrived, both ways. An ICMP error of an earlier one is no reason to give up. */
static int udp_round(struct target *target, int batch) {
  int arrived = 0, answers = 0;
  for (int i = 0; i < FLOWS; i++) {
    point_messages(false);
    if (sendmmsg(target->flows[i], messages, (unsigned)batch, 0) < 0) must(errno == ECONNREFUSED, "send");
  }
  arrived = echo(target->server, FLOWS * batch);
  for (int i = 0; i < FLOWS; i++)
    for (int left = batch, got; left > 0 && (got = receive(target->flows[i], false)) > 0; left -= got)
      answers += got;
  return arrived + answers;
}

static struct figures udp(struct target *target, int rounds) {
  struct figures figures = {0};
  for (int i = 0; i < WARM_UP; i++) udp_round(target, 1);
  uint64_t before = cpu_ns();
  for (int i = 0; i < rounds; i++) figures.units += (uint64_t)udp_round(target, BATCH);
  figures.cpu_ns = cpu_ns() - before;
  figures.lost = (uint64_t)rounds * 2 * FLOWS * BATCH - figures.units;
  return figures;
}

/* --- TCP ----------------------------------------------------------------------------------------------------- */

/* Both ends of a new connection. */
static bool open_pair(struct target *target, int wait_ms, int *client, int *peer) {
  *client = socket(AF_INET, SOCK_STREAM, 0);
  must(*client >= 0, "socket");
  limit_wait(*client, wait_ms);
  bool is_open = connect(*client, (struct sockaddr *)&target->address, sizeof(target->address)) == 0;
  *peer = is_open ? accept(target->server->tcp, NULL, NULL) : -1;
  if (*peer >= 0) return true;
  close(*client);
  return false;
}

static bool has_resent(int client) {
  struct tcp_info info;
  socklen_t size = sizeof(info);
  return getsockopt(client, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_total_retrans > 0;
}

/* The server closes first, so that the client's ports are free again at once. */
static bool converse(int client, int peer) {
  bool is_answered = send(client, buffer, REQUEST, 0) == REQUEST && recv(peer, buffer, REQUEST, 0) == REQUEST &&
                     send(peer, buffer, ANSWER, 0) == ANSWER;
  close(peer);
  is_answered = is_answered && recv(client, buffer, ANSWER, MSG_WAITALL) == ANSWER && recv(client, buffer, 1, 0) == 0;
  n_resent += has_resent(client);
  close(client);
  return is_answered;
}

/* What a failed connection left in the queue would be taken for the peer of the next one. */
static void empty_queue(struct server *server) {
  int flags = fcntl(server->tcp, F_GETFL);
  fcntl(server->tcp, F_SETFL, flags | O_NONBLOCK);
  for (int peer; (peer = accept(server->tcp, NULL, NULL)) >= 0;) close(peer);
  fcntl(server->tcp, F_SETFL, flags);
}

static bool connection(struct target *target, int wait_ms) {
  int client, peer;
  bool is_answered = open_pair(target, wait_ms, &client, &peer) && converse(client, peer);
  if (!is_answered) empty_queue(target->server);
  return is_answered;
}

static struct figures tcp(struct target *target, int count) {
  struct figures figures = {0};
  uint64_t before = cpu_ns();
  n_resent = 0;
  for (int i = 0; i < count; i++) figures.units += connection(target, 2000);
  figures.cpu_ns = cpu_ns() - before;
  figures.lost = (uint64_t)count - figures.units;
  figures.resent = n_resent;
  return figures;
}

static uint64_t drain(int peer) {
  uint64_t bytes = 0;
  ssize_t got;
  while ((got = recv(peer, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0) bytes += (uint64_t)got;
  return bytes;
}

static struct figures bulk(struct target *target, int mebibytes) {
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

/* --- lines --------------------------------------------------------------------------------------------------- */

/* What an earlier try left behind would be taken for the answer of this one. */
static void forget(struct target *target) {
  empty_queue(target->server);
  while (recv(target->server->udp, buffer, sizeof(buffer), MSG_DONTWAIT) >= 0) continue;
  for (int i = 0; i < FLOWS; i++)
    while (recv(target->flows[i], buffer, sizeof(buffer), MSG_DONTWAIT) >= 0) continue;
}

static bool is_reached(struct target *target) {
  forget(target);
  return connection(target, 100) && udp_round(target, 1) == 2 * FLOWS;
}

static void obey(const char *line) {
  char what[16] = "", server[16] = "", address[64] = "";
  int port = 0, count = 0;
  must(sscanf(line, "%15s %15s %63s %d %d", what, server, address, &port, &count) >= 4, "line");
  struct target *target = open_target(server, address, port);
  if (strcmp(what, "try") == 0) {
    puts(is_reached(target) ? "yes" : "no");
    return;
  }
  struct figures figures = strcmp(what, "udp") == 0   ? udp(target, count)
                           : strcmp(what, "tcp") == 0 ? tcp(target, count)
                                                      : bulk(target, count);
  printf("%lu %lu %lu %lu\n", figures.units, figures.cpu_ns, figures.lost, figures.resent);
}

int main(int argc, char **argv) {
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
