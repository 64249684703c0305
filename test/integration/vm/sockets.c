// SPDX-License-Identifier: Apache-2.0
// Real sockets over loopback, of each kind: what answers, what fails how, and
// who the peer seems to be.
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest.h"

#define PATIENCE_MS 20000

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

enum kind { V4, V6, MAPPED };
static const char* const kind_names[] = {"IPv4", "IPv6", "v4-mapped"};

static int tcp_servers[TCP_SERVERS];
static int udp_servers[UDP_SERVERS];

// One socket address, as this kind of socket writes it.
static struct sockaddr_in6 wide(const char* text, int port) {
  struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  inet_pton(AF_INET6, text, &address.sin6_addr);
  return address;
}

struct address {
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
  };
  socklen_t size;
};

static struct address address_of(enum kind kind, const char* v4, const char* v6, int port) {
  struct address address = {.size = sizeof(struct sockaddr_in6)};
  char mapped[64];
  snprintf(mapped, sizeof(mapped), "::ffff:%s", v4);
  if (kind == V4) {
    address.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, v4, &address.v4.sin_addr);
    address.size = sizeof(struct sockaddr_in);
  } else {
    address.v6 = wide(kind == V6 ? v6 : mapped, port);
  }
  return address;
}

static struct address cluster_ip(enum kind kind, int n, int port) {
  char v4[32], v6[32];
  snprintf(v4, sizeof(v4), "10.96.0.%d", n);
  snprintf(v6, sizeof(v6), "fd00::%x", n);
  return address_of(kind, v4, v6, port);
}

static bool is_same(const struct address* a, const struct address* b) {
  errno = 0;
  return a->size == b->size && memcmp(&a->any, &b->any, a->size) == 0;
}

static int server(int type, int port) {
  struct sockaddr_in6 address = wide("::", port);
  int fd = socket(AF_INET6, type, 0);
  if (bind(fd, (struct sockaddr*)&address, sizeof(address)) != 0 ||
      (type == SOCK_STREAM && listen(fd, 64) != 0))
    check(false, "server on port %d", port);
  return fd;
}

void start_servers(void) {
  for (int i = 0; i < TCP_SERVERS; i++) tcp_servers[i] = server(SOCK_STREAM, TCP_PORT + i);
  for (int i = 0; i < UDP_SERVERS; i++) udp_servers[i] = server(SOCK_DGRAM, UDP_PORT + i);
}

static bool is_readable(int fd, int timeout_ms) {
  struct pollfd poller = {.fd = fd, .events = POLLIN};
  errno = ETIMEDOUT;
  return poll(&poller, 1, timeout_ms) == 1;
}

static int client(enum kind kind, int type) {
  return socket(kind == V4 ? AF_INET : AF_INET6, type, 0);
}

// Number of the server that gets a connection, which is taken and closed; -1 if none does. A client is
// connected before its last segment has reached the server.
static int accept_any(void) {
  struct pollfd pollers[TCP_SERVERS];
  for (int i = 0; i < TCP_SERVERS; i++)
    pollers[i] = (struct pollfd){.fd = tcp_servers[i], .events = POLLIN};
  if (poll(pollers, TCP_SERVERS, PATIENCE_MS) < 1) return -1;
  for (int i = 0; i < TCP_SERVERS; i++) {
    if (pollers[i].revents == 0) continue;
    close(accept(tcp_servers[i], NULL, NULL));
    return i;
  }
  return -1;
}

// Connects over TCP; number of the server that got it, -1 with errno. *peer is
// what it seems to be.
static int dial(enum kind kind, const struct address* to, struct address* peer) {
  int fd = client(kind, SOCK_STREAM), number = -1;
  *peer = (struct address){.size = sizeof(struct sockaddr_in6)};
  if (connect(fd, &to->any, to->size) == 0) {
    getpeername(fd, &peer->any, &peer->size);
    number = accept_any();
  }
  int error = errno;
  close(fd);
  errno = error;
  return number;
}

// Node has no MPTCP sockets, C does; before 5.19 there is no way from a subflow to its socket.
static void check_mptcp(enum kind kind, bool has_helper) {
  struct address to = cluster_ip(kind, 10, 80), peer = {.size = sizeof(struct sockaddr_in6)};
  int fd = socket(kind == V4 ? AF_INET : AF_INET6, SOCK_STREAM, IPPROTO_MPTCP);
  if (fd < 0) {
    printf("# no MPTCP: %s\n", strerror(errno));
    return;
  }
  bool is_connected = connect(fd, &to.any, to.size) == 0 && accept_any() >= 0;
  check(is_connected, "MPTCP %s is answered", kind_names[kind]);
  getpeername(fd, &peer.any, &peer.size);
  check(is_same(&peer, &to) == has_helper, "MPTCP %s: getpeername() shows the %s",
        kind_names[kind], has_helper ? "Service" : "backend");
  close(fd);
}

bool is_reachable(void) {
  struct address to = cluster_ip(V4, 10, 80), peer;
  return dial(V4, &to, &peer) >= 0;
}

static void check_tcp(enum kind kind) {
  struct address to = cluster_ip(kind, 10, 80), sticky = cluster_ip(kind, 20, 80), peer;
  unsigned seen = 0, seen_sticky = 0;
  check(dial(kind, &to, &peer) >= 0, "TCP %s is answered", kind_names[kind]);
  check(is_same(&peer, &to), "TCP %s: getpeername() shows the Service", kind_names[kind]);
  for (int i = 0; i < 60; i++) {
    seen |= 1U << (dial(kind, &to, &peer) + 1);
    seen_sticky |= 1U << (dial(kind, &sticky, &peer) + 1);
  }
  errno = 0;
  check(seen == 0xe, "TCP %s reaches every backend", kind_names[kind]);
  check(seen_sticky == 0x2 || seen_sticky == 0x4 || seen_sticky == 0x8,
        "TCP %s with session affinity reaches one", kind_names[kind]);
}

static void check_node_port(enum kind kind, bool has_cookie) {
  struct address to = address_of(kind, "127.0.0.1", "::1", NODE_PORT), peer;
  bool is_answered = dial(kind, &to, &peer) >= 0;
  check(is_answered == has_cookie, "TCP %s to a NodePort on loopback is %s", kind_names[kind],
        has_cookie ? "answered" : "left alone");
}

static void check_failures(enum kind kind, bool has_retval) {
  const int refused = has_retval ? ECONNREFUSED : EPERM, dropped = has_retval ? ETIMEDOUT : EPERM;
  struct address no_tcp = cluster_ip(kind, 30, 80), no_local = cluster_ip(kind, 31, 80), peer;
  struct address no_udp = cluster_ip(kind, 30, 53);
  const char* name = kind_names[kind];
  int fd = client(kind, SOCK_DGRAM);
  check(dial(kind, &no_tcp, &peer) < 0 && errno == refused, "TCP %s without endpoints", name);
  check(dial(kind, &no_local, &peer) < 0 && errno == dropped, "TCP %s without local ones", name);
  check(sendto(fd, "x", 1, 0, &no_udp.any, no_udp.size) < 0 && errno == refused,
        "UDP %s without endpoints, not connected", name);
  check(connect(fd, &no_udp.any, no_udp.size) < 0 && errno == refused,
        "UDP %s without endpoints, connected", name);
  close(fd);
}

// The server sends back what it got.
static bool echo(int fd) {
  struct sockaddr_in6 from;
  socklen_t size = sizeof(from);
  char text[16];
  if (!is_readable(fd, PATIENCE_MS)) return false;
  ssize_t length = recvfrom(fd, text, sizeof(text), 0, (struct sockaddr*)&from, &size);
  return length > 0 && sendto(fd, text, length, 0, (struct sockaddr*)&from, size) == length;
}

// One datagram there and back over an unconnected socket; the reply must come
// from where it went.
static bool is_echoed(int fd, int server_number, const struct address* to) {
  struct address from = {.size = sizeof(struct sockaddr_in6)};
  char text[16];
  if (sendto(fd, "ask", 3, 0, &to->any, to->size) != 3 || !echo(udp_servers[server_number]))
    return false;
  if (!is_readable(fd, PATIENCE_MS) ||
      recvfrom(fd, text, sizeof(text), 0, &from.any, &from.size) != 3)
    return false;
  return is_same(&from, to);
}

static void check_udp(enum kind kind) {
  struct address one = cluster_ip(kind, 53, 53), two = cluster_ip(kind, 54, 53);
  struct address direct = address_of(kind, "127.0.0.1", "::1", UDP_PORT + 1);
  int fd = client(kind, SOCK_DGRAM);
  const char* name = kind_names[kind];
  check(is_echoed(fd, 0, &one), "UDP %s: the reply comes from the Service", name);
  check(is_echoed(fd, 1, &direct), "UDP %s: a plain reply comes from itself", name);
  check(is_echoed(fd, 1, &two), "UDP %s: a second Service over one socket", name);
  check(is_echoed(fd, 0, &one), "UDP %s: the first Service again", name);
  close(fd);
}

static void check_connected_udp(enum kind kind) {
  struct address to = cluster_ip(kind, 53, 53), next = cluster_ip(kind, 54, 53);
  struct address peer = {.size = sizeof(struct sockaddr_in6)}, from = peer;
  const char* name = kind_names[kind];
  int fd = client(kind, SOCK_DGRAM);
  char text[16];
  bool is_ok = connect(fd, &to.any, to.size) == 0 && send(fd, "ask", 3, 0) == 3 &&
               echo(udp_servers[0]) && is_readable(fd, PATIENCE_MS) &&
               recvfrom(fd, text, sizeof(text), 0, &from.any, &from.size) == 3;
  check(is_ok && is_same(&from, &to), "UDP %s, connected: the reply comes from the Service", name);
  check(getpeername(fd, &peer.any, &peer.size) == 0 && is_same(&peer, &to),
        "UDP %s, connected: getpeername() shows the Service", name);
  is_ok = connect(fd, &next.any, next.size) == 0 && send(fd, "ask", 3, 0) == 3 &&
          echo(udp_servers[1]) && getpeername(fd, &peer.any, &peer.size) == 0;
  check(is_ok && is_same(&peer, &next), "UDP %s, connected to another Service after that", name);
  close(fd);
}

void check_sockets(const struct expectation* expected) {
  for (enum kind kind = V4; kind <= MAPPED; kind++) {
    check_tcp(kind);
    check_node_port(kind, expected->has_cookie);
    check_failures(kind, expected->has_retval);
    check_udp(kind);
    check_connected_udp(kind);
    check_mptcp(kind, expected->has_mptcp);
  }
}
