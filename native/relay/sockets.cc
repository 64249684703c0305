// SPDX-License-Identifier: Apache-2.0
// See sockets.h.
#include "relay/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

namespace fairlead {
namespace {

const sockaddr_in& V4(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in&>(storage);
}
const sockaddr_in6& V6(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in6&>(storage);
}

}  // namespace

uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET ? V4(storage).sin_port : V6(storage).sin6_port);
}

void SocketAddress::CopyAddress(uint8_t* to) const {
  if (family() == AF_INET) {
    memcpy(to, &V4(storage).sin_addr, sizeof(in_addr));
  } else {
    memcpy(to, &V6(storage).sin6_addr, sizeof(in6_addr));
  }
}

SocketAddress SocketAddress::Of(uint8_t family, const uint8_t* address, uint16_t port) {
  SocketAddress made;
  if (family == 4) {
    sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
    memcpy(&v4.sin_addr, address, sizeof(v4.sin_addr));
    memcpy(&made.storage, &v4, made.size = sizeof(v4));
  } else {
    sockaddr_in6 v6 = {};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    memcpy(&v6.sin6_addr, address, sizeof(v6.sin6_addr));
    memcpy(&made.storage, &v6, made.size = sizeof(v6));
  }
  return made;
}

void CloseWithReset(Fd fd) {
  linger at_once = {.l_onoff = 1, .l_linger = 0};
  if (fd.is_valid()) setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

Fd BeginConnect(SocketAddress address) {
  Fd fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_valid()) return fd;
  int one = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
  if (connect(fd.get(), address.get(), address.size) == 0 || errno == EINPROGRESS) return fd;
  int error = errno;
  fd.Reset();
  errno = error;
  return fd;
}

int ErrorOf(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

}  // namespace fairlead
