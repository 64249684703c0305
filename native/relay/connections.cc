// SPDX-License-Identifier: Apache-2.0
// What becomes of one connection: asked, connecting, open, free. See relay_loop.h.
#include <errno.h>

#include <algorithm>

#include "relay/relay_loop.h"
#include "relay/sockets.h"

namespace fairlead {
namespace {

constexpr uint32_t kEdges = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

uint64_t DataOf(uint32_t id, bool is_server) {
  return (uint64_t{id} << 1) | (is_server ? 1 : 0);
}

// A broken one is both: the next call tells.
void Note(Side& side, uint32_t events) {
  bool is_broken = (events & (EPOLLERR | EPOLLHUP)) != 0;
  if (is_broken || (events & (EPOLLIN | EPOLLRDHUP)) != 0) side.is_readable = true;
  if (is_broken || (events & EPOLLOUT) != 0) side.is_writable = true;
  if (is_broken || (events & EPOLLRDHUP) != 0) side.has_ended = true;
}

}  // namespace

void RelayLoop::Ask(uint32_t listener, Accepted accepted) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(connections_.size()));
    connections_.emplace_back();
  }
  uint32_t id = free_.back();
  if (!Watch(accepted.fd.get(), DataOf(id, false), kEdges)) {
    CloseWithReset(std::move(accepted.fd));
    return;
  }
  free_.pop_back();
  Connection& connection = connections_[id];
  connection.state = Connection::kAsked;
  connection.client.fd = std::move(accepted.fd);
  open_ += 1;
  asked_ += 1;
  Event event = {};
  event.kind = Event::kAsked;
  event.family = accepted.peer.family() == AF_INET ? 4 : 6;
  event.port = accepted.peer.port();
  event.connection = id;
  event.listener = listener;
  accepted.peer.CopyAddress(event.address);
  Report(event);
}

void RelayLoop::Apply(const Answer& answer) {
  if (answer.connection >= connections_.size()) return;
  Connection& connection = connections_[answer.connection];
  if (connection.state != Connection::kAsked) return;
  asked_ -= 1;
  if (answer.kind != Answer::kForward) {
    CloseWithReset(std::move(connection.client.fd));
    Free(answer.connection, connection);
    return;
  }
  size_t first_size = std::min<size_t>(answer.first_size, Answer::kMostFirst);
  if (first_size > 0) connection.up.PutFirst(answer.first, first_size);
  connection.server.fd =
      BeginConnect(SocketAddress::Of(answer.family, answer.address, answer.port));
  if (!connection.server.fd.is_valid() ||
      !Watch(connection.server.fd.get(), DataOf(answer.connection, true), kEdges)) {
    Close(answer.connection, connection, Ending::kReset, errno);
    return;
  }
  connection.state = Connection::kConnecting;
  connection.deadline_ms = NowMs() + options_.connect_timeout_ms;
  connecting_.emplace(connection.deadline_ms, answer.connection);
}

void RelayLoop::HandleConnection(uint32_t id, bool is_server, uint32_t events) {
  Connection& connection = connections_[id];
  if (connection.state == Connection::kFree) return;
  Side& side = is_server ? connection.server : connection.client;
  Note(side, events);
  if (connection.state == Connection::kOpen) {
    Pump(id, connection);
  } else if (connection.state == Connection::kConnecting && is_server) {
    Connected(id, connection);
  } else if (connection.state == Connection::kConnecting && (events & (EPOLLERR | EPOLLHUP)) != 0) {
    Close(id, connection, Ending::kReset);  // The client has gone.
  }
}

void RelayLoop::Connected(uint32_t id, Connection& connection) {
  if (!connection.server.is_writable) return;
  connecting_.erase({connection.deadline_ms, id});
  int error = ErrorOf(connection.server.fd.get());
  if (error != 0) {
    Close(id, connection, Ending::kReset, error);
    return;
  }
  connection.state = Connection::kOpen;
  Pump(id, connection);
}

void RelayLoop::ExpireConnects() {
  if (connecting_.empty()) return;
  uint64_t now = NowMs();
  while (!connecting_.empty() && connecting_.begin()->first <= now) {
    uint32_t id = connecting_.begin()->second;
    Close(id, connections_[id], Ending::kReset, ETIMEDOUT);
  }
}

void RelayLoop::Pump(uint32_t id, Connection& connection) {
  using Progress = Stream::Progress;
  Progress up = connection.up.Pump(connection.client, connection.server, parts_);
  Progress down = up == Progress::kBroken
                      ? up
                      : connection.down.Pump(connection.server, connection.client, parts_);
  if (up == Progress::kBroken || down == Progress::kBroken) {
    Close(id, connection, Ending::kReset);
  } else if (up == Progress::kEnded && down == Progress::kEnded) {
    Close(id, connection, Ending::kEnd);
  } else if ((up == Progress::kMore || down == Progress::kMore) && !connection.is_queued) {
    connection.is_queued = true;
    queued_.push_back(id);
  }
}

void RelayLoop::PumpQueued() {
  std::vector<uint32_t> queued;
  queued.swap(queued_);
  for (uint32_t id : queued) {
    Connection& connection = connections_[id];
    connection.is_queued = false;
    if (connection.state == Connection::kOpen) Pump(id, connection);
  }
}

void RelayLoop::Close(uint32_t id, Connection& connection, Ending ending, int error) {
  if (connection.state == Connection::kConnecting) connecting_.erase({connection.deadline_ms, id});
  if (ending == Ending::kReset) {
    CloseWithReset(std::move(connection.client.fd));
    CloseWithReset(std::move(connection.server.fd));
  }
  Event event = {};
  event.kind = Event::kEnded;
  event.connection = id;
  event.error = static_cast<uint32_t>(error);
  Report(event);
  Free(id, connection);
}

void RelayLoop::Free(uint32_t id, Connection& connection) {
  connection.up.Reset(parts_);
  connection.down.Reset(parts_);
  connection.client = {};
  connection.server = {};
  connection.state = Connection::kFree;
  open_ -= 1;
  freed_.push_back(id);
}

}  // namespace fairlead
