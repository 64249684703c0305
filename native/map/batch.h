// SPDX-License-Identifier: Apache-2.0
// Several elements of a map at once, with honest counts. Knows descriptors and bytes, not
// JavaScript.
#ifndef FAIRLEAD_BATCH_H_
#define FAIRLEAD_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fairlead {

struct Elements {
  int fd;
  size_t key_bytes;
  size_t value_bytes;
};

// How many leading elements are done, and the errno and call that stopped it (0: nothing did).
struct Progress {
  uint32_t count = 0;
  int error = 0;
  const char* op = "";
};

// The vectors may be larger than `count` elements.
struct Contents {
  std::vector<uint8_t> keys;
  std::vector<uint8_t> values;
  uint32_t count = 0;
};

// Where a reading in batches stands; empty: at the start.
struct Cursor {
  std::vector<uint8_t> at;
  bool is_end = false;
};

size_t CursorBytes(const Elements& map);

Progress PutBatch(const Elements& map, const uint8_t* keys, const uint8_t* values, uint32_t count);
Progress DeleteBatch(const Elements& map, const uint8_t* keys, uint32_t count);
// Appends about `chunk` elements and moves the cursor; not for maps without batches.
Progress ReadBatch(const Elements& map, uint32_t chunk, Cursor* cursor, Contents* contents);
Progress ReadAll(const Elements& map, uint32_t max_entries, Contents* contents);

}  // namespace fairlead

#endif  // FAIRLEAD_BATCH_H_
