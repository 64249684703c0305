// SPDX-License-Identifier: Apache-2.0
// Listening sockets, opened and closed on the event loop, accepted from on the relay's thread. They
// have an epoll of their own, so that all can be left alone at once.
#ifndef FAIRLEAD_LISTENERS_H_
#define FAIRLEAD_LISTENERS_H_

#include <cstdint>
#include <map>
#include <mutex>

#include "relay/sockets.h"
#include "system/fd.h"

namespace fairlead {

struct Accepted {
  enum Result { kNone, kOne, kNoFile };
  Result result;
  Fd fd;
  SocketAddress peer;
};

class Listeners {
 public:
  // False with errno set.
  bool Open();
  // Readable while a connection waits.
  int epoll() const { return epoll_.get(); }
  // Its port, and a new id; 0 with errno set and the name of the call.
  uint32_t Add(SocketAddress address, uint16_t& port, const char*& call);
  // Nothing is accepted from it afterwards.
  void Remove(uint32_t id);
  void Close();
  // On the relay's thread: calls `visit(id)` for each at which a connection waits.
  template <typename Visitor>
  void Visit(Visitor visit) {
    uint32_t ids[64];
    size_t count = Ready(ids);
    for (size_t at = 0; at < count; at += 1) visit(ids[at]);
  }
  // One that waits at the listener.
  Accepted Accept(uint32_t id);

 private:
  size_t Ready(uint32_t (&ids)[64]);

  Fd epoll_;
  // Kept free for a connection that no other file is left for: it is accepted and reset.
  Fd spare_;
  std::mutex mutex_;  // guards the rest
  std::map<uint32_t, Fd> sockets_;
  uint32_t last_id_ = 0;
};

}  // namespace fairlead

#endif  // FAIRLEAD_LISTENERS_H_
