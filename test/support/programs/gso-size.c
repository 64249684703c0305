// SPDX-License-Identifier: Apache-2.0
// gso-size BYTES DEVICE...: packets that the kernel is still to segment may have this length in IPv4 (Linux 6.3), as
// `ip link set DEVICE gso_ipv4_max_size BYTES` of a newer ip(8).
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define GSO_IPV4_MAX_SIZE 63

struct change {
  struct nlmsghdr header;
  struct ifinfomsg link;
  struct rtattr attribute;
  __u32 size;
};

static int answer_to(struct change* change) {
  char buffer[4096];
  struct nlmsghdr* header = (struct nlmsghdr*)buffer;
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  int error = -1;
  if (send(fd, change, sizeof(*change), 0) > 0 && recv(fd, buffer, sizeof(buffer), 0) > 0 &&
      header->nlmsg_type == NLMSG_ERROR)
    error = ((struct nlmsgerr*)NLMSG_DATA(header))->error;
  close(fd);
  return error;
}

int main(int argc, char** argv) {
  for (int i = 2; i < argc; i++) {
    struct change change = {
        .header = {.nlmsg_len = sizeof(change),
                   .nlmsg_type = RTM_NEWLINK,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
        .link = {.ifi_index = (int)if_nametoindex(argv[i])},
        .attribute = {.rta_len = RTA_LENGTH(sizeof(__u32)), .rta_type = GSO_IPV4_MAX_SIZE},
        .size = (__u32)atoi(argv[1]),
    };
    int error = answer_to(&change);
    if (error) {
      fprintf(stderr, "%s: error %d\n", argv[i], -error);
      return 1;
    }
  }
}
