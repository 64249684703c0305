// SPDX-License-Identifier: Apache-2.0
// One direction of a connection: bytes that come in at one socket go out at the other. Few bytes
// are copied, which takes two calls; many are spliced through a pipe, and never come to this
// process.
#ifndef FAIRLEAD_STREAM_H_
#define FAIRLEAD_STREAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "relay/pipes.h"
#include "system/fd.h"

namespace fairlead {

// A socket, with what its last events (edges) have said.
struct Side {
  Fd fd;
  bool is_readable = false;
  bool is_writable = false;
  // The peer has ended its direction, or the connection is broken: a short read is not the last.
  bool has_ended = false;
};

// Of all streams of a thread.
struct StreamParts {
  static constexpr size_t kCopied = 32 << 10;
  PipePool pipes;
  std::unique_ptr<uint8_t[]> buffer = std::make_unique<uint8_t[]>(kCopied);
};

class Stream {
 public:
  enum class Progress {
    kWaiting,  // for the next event of a side
    kMore,     // others come first
    kEnded,    // the end has been passed on
    kBroken,   // the connection is to be reset
  };

  // Bytes that go out before all others.
  void PutFirst(const uint8_t* bytes, size_t size) { held_.assign(bytes, bytes + size); }
  // What it has taken in and cannot put out is held, and nothing more is taken in until it is out.
  Progress Pump(Side& from, Side& to, StreamParts& parts);
  // As new.
  void Reset(StreamParts& parts);
  bool has_ended() const { return has_ended_; }

 private:
  enum class Step { kDone, kAgain, kBroken };
  Step Flush(Side& to);
  Step FlushHeld(Side& to);
  Step FlushPipe(Side& to);
  Step TakeIn(Side& from, Side& to, StreamParts& parts);
  Step Copy(Side& from, Side& to, uint8_t* buffer);
  Step Splice(Side& from);
  void PassEnd(Side& to);
  void GiveEmptyPipe(PipePool& pipes);

  std::vector<uint8_t> held_;
  size_t held_at_ = 0;
  std::optional<Pipe> pipe_;
  size_t in_pipe_ = 0;
  size_t last_ = 0;
  bool is_bulk_ = false;
  bool is_read_ = false;  // to its end
  bool has_ended_ = false;
};

}  // namespace fairlead

#endif  // FAIRLEAD_STREAM_H_
