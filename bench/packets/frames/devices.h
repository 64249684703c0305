// SPDX-License-Identifier: Apache-2.0
// What feed.c does to namespaces and to the devices in them.
#ifndef FAIRLEAD_BENCH_DEVICES_H
#define FAIRLEAD_BENCH_DEVICES_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int conntrack;

static void must(bool holds, const char *what) {
  if (holds)
    return;
  perror(what);
  exit(1);
}

static void enter(const char *name) {
  char path[256];
  snprintf(path, sizeof(path), "/run/netns/%s", name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  must(fd >= 0 && setns(fd, CLONE_NEWNET) == 0, path);
  close(fd);
}

static void ask_device(const char *device, unsigned long what,
                       struct ifreq *request) {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  strncpy(request->ifr_name, device, IFNAMSIZ - 1);
  must(fd >= 0 && ioctl(fd, what, request) == 0, device);
  close(fd);
}

static void hardware_address(const char *device, uint8_t *address) {
  struct ifreq request = {0};
  ask_device(device, SIOCGIFHWADDR, &request);
  memcpy(address, request.ifr_hwaddr.sa_data, 6);
}

// A veth takes frames of XDP from its other end only with a program, or as here
// with generic receive offload, which drivers of network cards have on, too.
static void receive_frames(const char *device) {
  struct ethtool_value value = {.cmd = ETHTOOL_SGRO, .data = 1};
  struct ifreq request = {.ifr_data = (void *)&value};
  ask_device(device, SIOCETHTOOL, &request);
}

static void open_conntrack(void) {
  conntrack = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
  must(conntrack >= 0, "netlink");
}

// Of the namespace in which the socket was made.
static bool forget_connections(void) {
  struct {
    struct nlmsghdr header;
    struct nfgenmsg body;
  } request = {
      .header = {.nlmsg_len = sizeof(request),
                 .nlmsg_type =
                     NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
  };
  struct {
    struct nlmsghdr header;
    struct nlmsgerr body;
  } answer = {0};
  return send(conntrack, &request, sizeof(request), 0) == sizeof(request) &&
         recv(conntrack, &answer, sizeof(answer), 0) > 0 &&
         answer.body.error == 0;
}

#endif
