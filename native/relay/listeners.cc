// SPDX-License-Identifier: Apache-2.0
// See listeners.h.
#include "relay/listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include <utility>

namespace fairlead {
namespace {

constexpr int kBacklog = 4096;

bool IsOutOfFiles() {
  return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
}

Fd SpareFile() {
  return Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

// The name of the call that has failed, or null.
const char* Listen(int fd, SocketAddress& address) {
  int one = 1;
  // Accepted sockets inherit TCP_NODELAY, and keep-alive: a client that has vanished costs two
  // files.
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)) != 0 ||
      (address.family() == AF_INET6 &&
       setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) != 0)) {
    return "setsockopt";
  }
  if (bind(fd, address.get(), address.size) != 0) return "bind";
  if (listen(fd, kBacklog) != 0) return "listen";
  return getsockname(fd, address.get(), &address.size) == 0 ? nullptr : "getsockname";
}

}  // namespace

bool Listeners::Open() {
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  spare_ = SpareFile();
  return epoll_.is_valid() && spare_.is_valid();
}

uint32_t Listeners::Add(SocketAddress address, uint16_t& port, const char*& call) {
  Fd fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  call = fd.is_valid() ? Listen(fd.get(), address) : "socket";
  if (call != nullptr) return 0;
  std::lock_guard lock(mutex_);
  uint32_t id = ++last_id_;
  epoll_event event = {.events = EPOLLIN, .data = {.u32 = id}};
  call = "epoll_ctl";
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) return 0;
  port = address.port();
  sockets_.emplace(id, std::move(fd));
  return id;
}

void Listeners::Remove(uint32_t id) {
  std::lock_guard lock(mutex_);
  sockets_.erase(id);
}

void Listeners::Close() {
  std::lock_guard lock(mutex_);
  sockets_.clear();
  epoll_.Reset();
  spare_.Reset();
}

size_t Listeners::Ready(uint32_t (&ids)[64]) {
  epoll_event events[64];
  int count = epoll_wait(epoll_.get(), events, 64, 0);
  for (int at = 0; at < count; at += 1) ids[at] = events[at].data.u32;
  return count > 0 ? static_cast<size_t>(count) : 0;
}

Accepted Listeners::Accept(uint32_t id) {
  std::lock_guard lock(mutex_);
  auto found = sockets_.find(id);
  if (found == sockets_.end()) return {Accepted::kNone, {}, {}};
  int listener = found->second.get();
  for (;;) {
    SocketAddress peer;
    Fd fd(accept4(listener, peer.get(), &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.is_valid()) return {Accepted::kOne, std::move(fd), peer};
    if (IsOutOfFiles()) {
      spare_.Reset();
      Fd shed(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
      bool is_shed = shed.is_valid();
      CloseWithReset(std::move(shed));
      spare_ = SpareFile();
      if (!is_shed) return {Accepted::kNone, {}, {}};
      return {Accepted::kNoFile, {}, {}};
    }
    // Of the one that waited, as ECONNABORTED: it has gone.
    if (errno == EAGAIN || errno == EINVAL || errno == EBADF) return {Accepted::kNone, {}, {}};
  }
}

}  // namespace fairlead
