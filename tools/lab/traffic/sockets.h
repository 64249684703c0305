// SPDX-License-Identifier: Apache-2.0
// Servers and what leads to them. One thread has both ends: it makes a socket in the network
// namespace that it is in.
#ifndef FAIRLEAD_TRAFFIC_SOCKETS_H
#define FAIRLEAD_TRAFFIC_SOCKETS_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { FLOWS = 64, MAX_SERVERS = 4, MAX_TARGETS = 16, BUFFER = 4 * 1024 * 1024 };

struct server {
  int udp, tcp;
};

struct target {
  struct server* server;
  struct sockaddr_in address;
  int flows[FLOWS];
};

static struct server servers[MAX_SERVERS];
static struct target targets[MAX_TARGETS];
static int n_targets;

static void must(bool holds, const char* what) {
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

static void enter(const char* name) {
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
  must(bind(fd, (struct sockaddr*)&any, sizeof(any)) == 0, "bind");
  return fd;
}

static void open_server(struct server* server, const char* where) {
  char netns[64] = "";
  int port = 0;
  must(sscanf(where, "%63[^:]:%d", netns, &port) == 2, where);
  enter(netns);
  server->udp = bound(SOCK_DGRAM, port);
  server->tcp = bound(SOCK_STREAM, port);
  must(listen(server->tcp, 128) == 0, "listen");
}

static struct target* open_target(const char* server, const char* address, int port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  must(inet_pton(AF_INET, address, &to.sin_addr) == 1, "address");
  for (int i = 0; i < n_targets; i++)
    if (memcmp(&targets[i].address, &to, sizeof(to)) == 0) return &targets[i];
  must(n_targets < MAX_TARGETS, "targets");
  struct target* target = &targets[n_targets++];
  target->server = &servers[atoi(server)];
  target->address = to;
  for (int i = 0; i < FLOWS; i++) target->flows[i] = -1;
  return target;
}

/* A proxy that translates sockets does so when they connect: a socket that is older than the proxy
 * tells nothing of it. */
static void renew_flows(struct target* target) {
  for (int i = 0; i < FLOWS; i++) {
    if (target->flows[i] >= 0) close(target->flows[i]);
    int fd = target->flows[i] = socket(AF_INET, SOCK_DGRAM, 0);
    must(fd >= 0, "socket");
    limit_wait(fd, 50);
    /* A proxy may refuse it, for want of endpoints: nothing arrives then. */
    connect(fd, (struct sockaddr*)&target->address, sizeof(target->address));
  }
}

/* Both ends of a new connection. */
static bool open_pair(struct target* target, int wait_ms, int* client, int* peer) {
  *client = socket(AF_INET, SOCK_STREAM, 0);
  must(*client >= 0, "socket");
  limit_wait(*client, wait_ms);
  bool is_open = connect(*client, (struct sockaddr*)&target->address, sizeof(target->address)) == 0;
  *peer = is_open ? accept(target->server->tcp, NULL, NULL) : -1;
  if (*peer >= 0) return true;
  close(*client);
  return false;
}

/* What a failed connection left in the queue would be taken for the peer of the next one. */
static void empty_queue(struct server* server) {
  int flags = fcntl(server->tcp, F_GETFL);
  fcntl(server->tcp, F_SETFL, flags | O_NONBLOCK);
  for (int peer; (peer = accept(server->tcp, NULL, NULL)) >= 0;) close(peer);
  fcntl(server->tcp, F_SETFL, flags);
}

#endif
