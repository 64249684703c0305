// SPDX-License-Identifier: Apache-2.0
// Addresses of TCP sockets, and small calls on them.
#ifndef FAIRLEAD_SOCKETS_H_
#define FAIRLEAD_SOCKETS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "system/fd.h"

namespace fairlead {

// A struct sockaddr of either family.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  uint16_t port() const;
  // Copies 4 or 16 bytes.
  void CopyAddress(uint8_t* to) const;
  static SocketAddress Of(uint8_t family, const uint8_t* address, uint16_t port);
};

// The peer gets a reset instead of an end.
void CloseWithReset(Fd fd);

// Begins to connect; not valid, with errno set, if that fails at once.
Fd BeginConnect(SocketAddress address);

// 0: it is connected.
int ErrorOf(int fd);

}  // namespace fairlead

#endif  // FAIRLEAD_SOCKETS_H_
