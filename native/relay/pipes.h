// SPDX-License-Identifier: Apache-2.0
// Pipes through which bytes are spliced. A direction of a connection has one only while it moves
// many bytes, so that idle connections cost no files.
#ifndef FAIRLEAD_PIPES_H_
#define FAIRLEAD_PIPES_H_

#include <optional>
#include <vector>

#include "system/fd.h"

namespace fairlead {

struct Pipe {
  Fd out;
  Fd in;
};

class PipePool {
 public:
  // Of those that are taken at a time.
  void Limit(size_t most) { most_ = most; }
  // Nothing if too many are in use, or no more files can be opened.
  std::optional<Pipe> Take();
  // An empty one.
  void Give(Pipe pipe);
  // One that is not empty: it is closed.
  void Drop(Pipe pipe);

 private:
  std::vector<Pipe> free_;
  size_t most_ = 0;
  size_t taken_ = 0;
};

}  // namespace fairlead

#endif  // FAIRLEAD_PIPES_H_
