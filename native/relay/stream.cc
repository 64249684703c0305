// SPDX-License-Identifier: Apache-2.0
// See stream.h.
#include "relay/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <utility>

namespace fairlead {
namespace {

// A direction with so much at once is spliced, until it is less than the second: a pipe has 16
// places, and packets of a network fill each with little more than a thousand bytes.
constexpr size_t kBulk = StreamParts::kCopied;
constexpr size_t kStillBulk = 8 << 10;
constexpr size_t kSpliced = 1 << 20;
// Then it is the turn of other connections.
constexpr size_t kPerTurn = 2 << 20;

bool IsAgain() {
  return errno == EAGAIN || errno == EINTR;
}

}  // namespace

Stream::Progress Stream::Pump(Side& from, Side& to, StreamParts& parts) {
  for (size_t moved = 0;; moved += last_) {
    Step step = Flush(to);
    if (step == Step::kBroken) return Progress::kBroken;
    if (step == Step::kAgain) return Progress::kWaiting;
    if (is_read_) PassEnd(to);
    if (is_read_ || !from.is_readable || moved >= kPerTurn) {
      GiveEmptyPipe(parts.pipes);
      if (is_read_) return Progress::kEnded;
      return from.is_readable ? Progress::kMore : Progress::kWaiting;
    }
    if (TakeIn(from, to, parts) == Step::kBroken) return Progress::kBroken;
  }
}

Stream::Step Stream::Flush(Side& to) {
  Step step = FlushHeld(to);
  return step == Step::kDone ? FlushPipe(to) : step;
}

Stream::Step Stream::FlushHeld(Side& to) {
  while (held_at_ < held_.size()) {
    if (!to.is_writable) return Step::kAgain;
    ssize_t sent = send(to.fd.get(), held_.data() + held_at_, held_.size() - held_at_,
                        MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      held_at_ += static_cast<size_t>(sent);
    } else if (errno == EAGAIN) {
      to.is_writable = false;
    } else if (errno != EINTR) {
      return Step::kBroken;
    }
  }
  if (!held_.empty()) std::vector<uint8_t>().swap(held_);
  held_at_ = 0;
  return Step::kDone;
}

Stream::Step Stream::FlushPipe(Side& to) {
  while (in_pipe_ > 0) {
    if (!to.is_writable) return Step::kAgain;
    ssize_t sent = splice(pipe_->out.get(), nullptr, to.fd.get(), nullptr, in_pipe_,
                          SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (sent >= 0) {
      in_pipe_ -= static_cast<size_t>(sent);
    } else if (errno == EAGAIN) {
      to.is_writable = false;
    } else if (errno != EINTR) {
      return Step::kBroken;
    }
  }
  return Step::kDone;
}

Stream::Step Stream::TakeIn(Side& from, Side& to, StreamParts& parts) {
  last_ = 0;
  if (is_bulk_ && !pipe_) pipe_ = parts.pipes.Take();
  return is_bulk_ && pipe_ ? Splice(from) : Copy(from, to, parts.buffer.get());
}

// Nothing is held when it is called: what cannot be sent at once is.
Stream::Step Stream::Copy(Side& from, Side& to, uint8_t* buffer) {
  ssize_t count = recv(from.fd.get(), buffer, StreamParts::kCopied, MSG_DONTWAIT);
  if (count < 0 && errno == EAGAIN) from.is_readable = false;
  if (count < 0) return IsAgain() ? Step::kAgain : Step::kBroken;
  is_read_ = count == 0;
  last_ = static_cast<size_t>(count);
  is_bulk_ = last_ >= kBulk;
  // More that comes is an edge; an end that has been seen already is none.
  if (last_ < StreamParts::kCopied && !from.has_ended) from.is_readable = false;
  size_t sent = 0;
  if (to.is_writable && last_ > 0) {
    ssize_t result = send(to.fd.get(), buffer, last_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (result < 0 && !IsAgain()) return Step::kBroken;
    if (result < 0 && errno == EAGAIN) to.is_writable = false;
    if (result > 0) sent = static_cast<size_t>(result);
  }
  if (sent < last_) held_.assign(buffer + sent, buffer + last_);
  return Step::kDone;
}

// The pipe is empty when it is called: EAGAIN is the socket's.
Stream::Step Stream::Splice(Side& from) {
  ssize_t count = splice(from.fd.get(), nullptr, pipe_->in.get(), nullptr, kSpliced,
                         SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  if (count < 0 && errno == EAGAIN) from.is_readable = false;
  if (count < 0) return IsAgain() ? Step::kAgain : Step::kBroken;
  is_read_ = count == 0;
  last_ = in_pipe_ = static_cast<size_t>(count);
  is_bulk_ = last_ >= kStillBulk;
  return Step::kDone;
}

void Stream::PassEnd(Side& to) {
  if (has_ended_) return;
  has_ended_ = true;
  shutdown(to.fd.get(), SHUT_WR);
}

void Stream::GiveEmptyPipe(PipePool& pipes) {
  if (pipe_) pipes.Give(std::move(*pipe_));
  pipe_.reset();
}

void Stream::Reset(StreamParts& parts) {
  if (pipe_) parts.pipes.Drop(std::move(*pipe_));
  *this = Stream();
}

}  // namespace fairlead
