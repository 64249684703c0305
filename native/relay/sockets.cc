// SPDX-License-Identifier: Apache-2.0
// See sockets.h.
#include "relay/sockets.h"

#include <errno.h>
#include <netinet/tcp.h>

namespace fairlead {

void CloseWithReset(Fd fd) {
  linger at_once = {.l_onoff = 1, .l_linger = 0};
  if (fd.is_valid()) setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

Fd BeginConnect(SocketAddress address) {
  Fd fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_valid()) return fd;
  int one = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
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
