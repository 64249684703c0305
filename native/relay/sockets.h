// SPDX-License-Identifier: Apache-2.0
// Small calls on TCP sockets.
#ifndef FAIRLEAD_SOCKETS_H_
#define FAIRLEAD_SOCKETS_H_

#include "relay/records.h"
#include "system/fd.h"

namespace fairlead {

// The peer gets a reset instead of an end.
void CloseWithReset(Fd fd);

// Begins to connect; not valid, with errno set, if that fails at once.
Fd BeginConnect(SocketAddress address);

// 0: it is connected.
int ErrorOf(int fd);

}  // namespace fairlead

#endif  // FAIRLEAD_SOCKETS_H_
