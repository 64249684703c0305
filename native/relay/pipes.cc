// SPDX-License-Identifier: Apache-2.0
// See pipes.h.
#include "relay/pipes.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace fairlead {
namespace {

constexpr size_t kMostFree = 16;
constexpr int kPipeBytes = 1 << 20;

}  // namespace

std::optional<Pipe> PipePool::Take() {
  if (taken_ >= most_) return std::nullopt;
  if (!free_.empty()) {
    Pipe pipe = std::move(free_.back());
    free_.pop_back();
    taken_ += 1;
    return pipe;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return std::nullopt;
  // Else each call moves 64 KiB. Refused to a user who has many: the pipe is as it is then.
  fcntl(ends[0], F_SETPIPE_SZ, kPipeBytes);
  taken_ += 1;
  return Pipe{.out = Fd(ends[0]), .in = Fd(ends[1])};
}

void PipePool::Give(Pipe pipe) {
  taken_ -= 1;
  if (free_.size() < kMostFree) free_.push_back(std::move(pipe));
}

void PipePool::Drop(Pipe) {
  taken_ -= 1;
}

}  // namespace fairlead
